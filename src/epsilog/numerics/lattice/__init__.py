"""Losses on a lattice: laws are cut into cells, planned for and composed, with every error bounded."""
