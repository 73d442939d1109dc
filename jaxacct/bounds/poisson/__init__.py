"""Bounds of Poisson-sampled steps."""
