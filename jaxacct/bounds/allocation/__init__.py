"""Bounds of random allocation."""
