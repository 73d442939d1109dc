"""Bounds of shuffled reports."""
