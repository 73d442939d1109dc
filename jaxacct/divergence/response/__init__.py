"""Divergences of shuffled binary randomized response and of the special pairs of Girgis et al. 2021."""
