"""Log-linear models: every model that is trained on rows by a batch optimiser.

The score of a class is a sum of one number per family: of a feature alone, or of a feature and
its parents. The files, in the order of the data:

- `cells`, `curves`, `steps`: families at given resolutions, laid out once, and how free numbers
  become their scores: free, smooth along ordered values, or monotone; `forms`: free, normalised,
  or weights on the logarithms of generative tables;
- `joining`: families that are read in one look-up; `rows`: rows as places of cells, on any engine,
  with exact sums;
- `objective`: the loss penalised by a ridge with a centre per layer, and the fit of terms;
- `optimiser`: its minimum, with bounds and carried curvature, and the search for strengths by
  held-out rows;
- `offsets`: class offsets, fitted last; `residuals`: what an additive model leaves unsaid.

Training by mini-batches (`tanager.training`) stays apart: it samples a structure for every batch,
so it has neither fixed cells nor a loss that could be summed exactly over all rows.
"""

from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.curves import basis
from tanager.loglinear.joining import Columns
from tanager.loglinear.objective import Fit, Settings, fit_scores
from tanager.loglinear.rows import LocatedTerms
from tanager.loglinear.steps import Signs, can_hold

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
