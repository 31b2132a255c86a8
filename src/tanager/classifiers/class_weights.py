"""Class weights: what an error costs, as a change of the class prior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.targets import class_factors, no_weight_error
from tanager.parameters import Tables

Floats = NDArray[np.float64]


def check_class_weight(class_weight: Any, classes: NDArray[Any]) -> None:
    """Refuse weights that are not allowed, before the work begins."""
    if not class_factors(class_weight, classes, np.ones(len(classes))).any():
        raise no_weight_error()


def weigh_classes(tables: Tables, class_weight: Any, classes: NDArray[Any], sums: Floats) -> Tables:
    r"""Return the tables with each class's prior times its weight, normalised again.

    classes: shape (n_classes,)
    sums: shape (n_classes,); the total weight of each class's rows.

    Weighting errors on class c by :math:`w_c` asks for the class of greatest
    :math:`w_c P(c \mid x)`, which is a model of the same tables whose prior is
    proportional to :math:`w_c P(c)`. The rows are counted as they are: fifty rows
    that weigh like five thousand are still the evidence of fifty, for cut points,
    structure and shrinkage alike.
    """
    if class_weight is None:
        return tables
    factors = class_factors(class_weight, classes, sums)
    # A class of weight zero keeps a finite logarithm, and no probability to speak of.
    log_prior = tables.log_prior + np.log(np.maximum(factors, np.finfo(np.float64).tiny))
    return replace(tables, log_prior=log_prior - np.logaddexp.reduce(log_prior))
