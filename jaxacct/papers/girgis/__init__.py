"""Girgis et al. 2021."""
