"""The privacy blanket of shuffled reports: laws of what all reports have in common, and the profile of a round."""
