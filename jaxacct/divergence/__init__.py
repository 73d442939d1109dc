"""Divergences between named pairs of distributions: functions of float64 arrays, which know nothing of mechanisms."""
