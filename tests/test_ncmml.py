import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.learn.linear import Fda, InverseCovariance, Ridge
from lookalike.learn.ncmc import Ncmc
from lookalike.learn.ncmml import Ncmml, NcmmlDot


@parametrize_with_checks([Ncmml(), NcmmlDot(), Ncmc(), Fda(), Ridge(), InverseCovariance()])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)
