"""Sentences that several mechanisms share."""

ADAPTIVE = "a step may depend on all earlier outputs"

EVERY_STEP = "the noisy output of every step, in order; not who took part in it"
EVERY_REPORT = "all reports, in the shuffled order"

GAUSSIAN_STEPS = (
    "each step releases a sum of contributions clipped to norm C plus Gaussian noise of standard deviation "
    f"noise_multiplier * C; {ADAPTIVE}"
)
UNIFORM_STEPS = (
    "each record's steps are a uniformly random set of the stated size, drawn independently of the other records and "
    "afresh in every epoch, and stay secret (shuffling batches that were fixed in advance is another scheme)"
)
SHUFFLED_REPORTS = (
    "the users' data are in a uniformly random order, drawn afresh in every round and known to the shuffler alone; "
    "each report is randomized as stated, and a randomizer may depend on earlier reports"
)


def counted(number: float, one: str, several: str = "") -> str:
    """`number` and the noun `one`; its plural adds an s, unless `several` is given.

    >>> counted(1, "report"), counted(1000, "report")
    ('1 report', '1000 reports')
    """
    return f"{number:.0f} {one}" if number == 1 else f"{number:.0f} {several or one + 's'}"


def epochs(number: float, one: str = "epoch") -> str:
    """What to add to a scheme that is run `number` times, comma included; empty for once.

    >>> epochs(1), epochs(10), epochs(3, "round")
    ('', ', 10 epochs', ', 3 rounds')
    """
    return "" if number == 1 else f", {counted(number, one)}"
