"""How a question is answered: the only place that decides which methods are run for it.

The terms used here and in the messages; to *ask* a method is to run it for a question:

* A *question* names a mechanism, whether epsilon or delta is wanted, and the target at which (`_question`).
* A *lane* is one point of a batch inside a kernel; a method *on lanes* answers many points with one program, also
  inside a user's traced code. A method on the *host* takes one concrete point at a time.
* A *direction* is one side of add-or-remove adjacency; the answer is the larger of both. Replace-one has only one.
* A *quick* question leaves the host's methods out: it is asked with ``precision=inf``, or inside traced code. The
  *quick methods* are those that it asks: closed forms and Renyi divergences, on lanes. (Outside traced code brackets
  whose role is quick come before them, and a last resort on the host follows where they find no finite bound.)
* The *role* of a method says which questions ask it, and after what (`jaxacct._method.Role`).
* An *exact* method's upper end is the mechanism's own value up to rounding.
* A *reduction* is a mechanism or pair that dominates the one in question and is analysed in its place; a lower end of
  its value is not a lower end of the mechanism's value.

A *plan* is the list of methods to ask, and says how each is run (`_plan`); the *loop* asks them until the bracket is
narrow (`_loop`).
"""

from jaxacct.answering._loop import answer
from jaxacct.answering._plan import plan
from jaxacct.answering._question import Question, question_of

__all__ = ["Question", "answer", "plan", "question_of"]
