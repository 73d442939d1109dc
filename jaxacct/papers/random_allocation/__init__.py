"""Feldman & Shenfeld 2025."""
