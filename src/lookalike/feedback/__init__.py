"""Relevance feedback over any index: learn from marks, rank, and choose the next questions.

round          run_round: one round, from Marks to a RoundOutcome
learners       models that learn from marks: the Learner protocol, Svm and Svdd
questions      strategies that choose which items to ask about
estimate       the estimated number of positive items
emulated_user  sessions with a user who answers from labels, for measurements
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
