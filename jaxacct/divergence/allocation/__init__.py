"""1-out-of-t random allocation: moments, transforms and profiles of the average likelihood ratio of its steps.

Notation of this folder. P and Q are one step's outputs with and without the record, Y_i = dP/dQ under Q for i = 1..t
are independent, W_i = Y_i - 1, and X = (1/t) sum Y_i is the likelihood ratio of the whole epoch. For the Gaussian pair
with noise multiplier sigma, Y = exp(g/sigma - 1/(2 sigma^2)), g standard normal.
"""
