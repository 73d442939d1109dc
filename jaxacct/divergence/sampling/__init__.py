"""Monte Carlo samples of privacy losses, of random allocation and of correlated noise: estimates, not bounds."""
