"""A release as a bag of single releases."""

from epsilog.mechanisms.composition import (
    Bag,
    check_absence,
    check_coins,
    flatten,
    sampled_parts,
    total_mu,
    unsampled,
)

__all__ = ["Bag", "check_absence", "check_coins", "flatten", "sampled_parts", "total_mu", "unsampled"]
