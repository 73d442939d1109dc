"""Feldman, McMillan & Talwar 2021."""
