"""What is drawn: the two distributions of a release, the payoff whose mean is delta, and streams that can be redrawn.

``pairs`` chooses the distributions (``mixtures`` for balls-in-bins, ``paths`` for b-min-sep and cyclic Poisson),
``payoff`` prices a loss, ``tilt`` samples by importance, ``shards`` keys and counts the draws; ``oracle`` needs none.
"""
