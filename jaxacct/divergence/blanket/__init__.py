"""The privacy blanket of shuffled reports: what all reports have in common, as laws, and the profile of a round."""
