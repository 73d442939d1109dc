"""Laws of likelihood ratios on a geometric lattice."""
