"""Statements of the five papers that answer no question by themselves, one function for each statement."""
