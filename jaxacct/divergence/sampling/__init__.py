"""Monte Carlo samples of the privacy loss of random allocation: estimates, not bounds."""
