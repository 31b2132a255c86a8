"""Which cells share a weight: the nested levels of Zaidi et al. (2017, section 5.4).

==========  ====================================  ===========================
level       one weight per                        number of weights
==========  ====================================  ===========================
1           feature (and one for the class)       n + 1
2           value (and each class)                sum of arities + classes
3           value and class                       classes * (sum of arities + 1)
4           value, class and parents' values      one per parameter
==========  ====================================  ===========================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.discriminative.layout import Layout

__all__ = ["tie_cells"]


def tie_cells(layout: Layout, level: int) -> tuple[NDArray[np.int64], int]:
    """Return the weight of every cell and class, shape (n_cells, n_classes), and their number.

    The class node stands first. The last cell, which holds no parameter, has
    the index one past the last weight.
    """
    n_classes = layout.n_classes
    ties = np.empty((layout.n_cells, n_classes), np.int64)
    classes = np.arange(n_classes)
    if level == 4:
        ties[:] = np.arange(layout.n_cells * n_classes).reshape(-1, n_classes)
        return ties, (layout.n_cells - 1) * n_classes
    ties[0] = 0 if level == 1 else classes
    n = 1 if level == 1 else n_classes
    for family in layout.families:
        values = np.tile(np.arange(family.arity), family.n_contexts)[:, None]
        if level == 1:
            ties[family.cells] = n
            n += 1
        elif level == 2:
            ties[family.cells] = n + values
            n += family.arity
        else:
            ties[family.cells] = n + values * n_classes + classes
            n += family.arity * n_classes
    ties[-1] = n
    return ties, n
