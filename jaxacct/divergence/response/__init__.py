"""Shuffled binary randomized response and the special pairs."""
