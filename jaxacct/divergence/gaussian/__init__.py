"""The Gaussian pair and its Poisson-sampled mixture."""
