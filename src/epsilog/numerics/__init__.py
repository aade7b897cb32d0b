"""Numbers with proven errors: rounding, roots, privacy loss distributions and their pairs; no mechanism is known."""
