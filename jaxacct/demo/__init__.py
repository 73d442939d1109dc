"""`jaxacct demo`: a small network trained with DP-SGD, with batches drawn by random allocation, within a budget.

It shows what a training loop with `jaxacct.training` looks like: handwritten digits, per-example clipping, noise on the
sum, epsilon in the progress bar, a guard that stops at the budget, a checkpoint that survives Ctrl-C, and a privacy
statement at the end. The module needs ``pip install 'jaxacct[demo]'``, and is not imported with jaxacct.

    from jaxacct import demo

    outcome = demo.run(demo.Settings(target_epsilon=2.0), out="demo.png")
    outcome.epsilon, outcome.accuracies[-1]
"""

from jaxacct.demo._command import main
from jaxacct.demo._loop import Outcome, State, run
from jaxacct.demo._plan import Plan, Settings, make_plan

__all__ = ["Outcome", "Plan", "Settings", "State", "main", "make_plan", "run"]
