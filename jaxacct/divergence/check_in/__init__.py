"""Clones among the users who check in."""
