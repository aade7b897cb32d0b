"""From releases to dominating pairs: mechanism by mechanism, and for groups."""
