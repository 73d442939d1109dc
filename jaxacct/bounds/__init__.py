"""Theorems, one file for each paper, one function for each theorem.

A function takes a mechanism whose fields are float64 lanes [L] and returns a curve of one direction:
Renyi divergences [A, L] at given orders, or log delta [L] at given epsilon and its inverse.
None sees a target.
"""
