"""The *reference engine*: laws of likelihood ratios on a geometric lattice, composed by fast Fourier transforms.

Points are exp(offset + j step), equidistant in the logarithm, and a law of one side bounds one side of delta
(`_ratio.Side`). The engine applies to anything with a loss distribution and relies only on masses and their places, so
that the contours of complex moments and the laws inside jit are checked against it; and it alone is available where
they have no moments or no atoms. Everything here runs on the host.
"""
