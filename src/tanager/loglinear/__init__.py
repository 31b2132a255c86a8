"""Log-linear models: all models trained on rows by a batch optimiser.

The score of a class is a sum of one number per family, that is, per feature or per feature and
its parents. The files, in the order of the data flow:

- `cells`, `curves`, `steps`: families at given resolutions, laid out once, and how free
  parameters become their scores: free, smooth along ordered values, or monotone (those of
  `Discriminative` are in `tanager.parameters.discriminative.forms`);
- `joining`: families combined into one look-up; `rows`: rows as indices of cells, on any engine,
  with exact sums;
- `objective`: the loss plus a ridge penalty centred per layer, and the fit of terms;
- `optimiser`: its minimum, with bounds and warm-started curvature, and the search for strengths
  on held-out rows;
- `offsets`: class offsets, fitted last; `residuals`: the residuals of an additive model.

Mini-batch training (`tanager.training`) is separate: it samples a structure for every batch,
so it has neither fixed cells nor a loss that could be summed exactly over all rows.
"""

from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.curves import Signs, basis, can_hold
from tanager.loglinear.joining import Columns
from tanager.loglinear.objective import Fit, Settings, fit_scores
from tanager.loglinear.rows import LocatedTerms

__all__ = [
    "Columns",
    "Fit",
    "LocatedTerms",
    "Settings",
    "Signs",
    "Terms",
    "basis",
    "by_class",
    "can_hold",
    "fit_scores",
]
