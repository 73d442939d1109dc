"""The average likelihood ratio of 1-out-of-t random allocation: moments, transforms, profiles."""
