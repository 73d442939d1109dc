"""Divergences of shuffled check-ins: the clones pair for a random number of reports, and binary randomized response."""
