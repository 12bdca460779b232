"""What is right: pairwise-gated attention in float64, the eager yardstick, and the accuracy rule.

Written in numpy. CuPy's arrays pass through the same functions, since numpy's dispatch to them.
"""
