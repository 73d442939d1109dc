"""Bounds of shuffled check-ins."""
