"""The clones pair of shuffled reports: profile, Renyi divergences, trade-off function."""
