"""Monte Carlo samples of the privacy losses of random allocation and of correlated noise: estimates, not bounds."""
