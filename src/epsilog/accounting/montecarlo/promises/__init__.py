"""What counts of draws promise: ``intervals`` for one probability, ``two_point`` and ``bounds`` for a release."""
