"""Laws of likelihood ratios on a geometric lattice: points exp(offset + j step), equidistant in the logarithm.

A law of one side bounds one side of delta (`_ratio.Side`). Everything here runs on the host.
"""
