"""Balls-in-bins: sums of likelihood ratios, the pair of one epoch, and the search for its answers."""
