"""The privacy profile of a shuffled list that is cut into batches: upper bounds by a blanket, lower bounds by tests."""
