"""The *reference engine*: laws of likelihood ratios on a geometric lattice, composed by fast Fourier transforms.

Points are exp(offset + j step), equidistant in the logarithm, and a law of one side bounds one side of delta
(`_ratio.Side`). It answers whatever has a loss distribution and rests on nothing but masses and places, so that the
contours of complex moments and the laws inside jit are held against it; and it answers by itself what they have no
moments or no atoms for. Everything here runs on the host.
"""
