"""Certified answers against enclosures by ball arithmetic (python-flint), one family of questions a file.

An enclosure is two numbers with the truth between them, not an estimate of it: an upper answer below the lower one, or
a lower answer above the upper one, is wrong whatever the cause. Each family has a default slice of some hundred random
points and a slow one of ten thousand, where each takes long of hundreds (`-m slow`, an hour on two cores).
ORACLE_SEED=2 draws other points, ORACLE_SHARE=0.25 a quarter of the slow ones.
"""
