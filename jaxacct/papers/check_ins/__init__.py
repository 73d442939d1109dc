"""Liew, Hasegawa & Takahashi 2022."""
