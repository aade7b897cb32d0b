"""Losses on a lattice: discretization, planning and composition, with every error bounded."""
