"""Means of correlated log-normal variables: the likelihood ratio of balls in bins with correlated noise."""
