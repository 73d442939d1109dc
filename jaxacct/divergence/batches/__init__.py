"""The blanket of a shuffled list that is cut into batches: its law, sums of independent terms, profiles, and tests."""
