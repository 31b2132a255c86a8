"""Log-linear models: all models trained on rows by a batch optimiser.

The score of a class is a sum of one number per family, that is, per feature or per feature and
its parents. The files, in the order of the data flow:

- `cells`, `curves`: families at given resolutions, laid out once, and how free parameters become
  their scores: free, smooth along ordered values or across two numbers, or monotone (those of
  `Discriminative` are in `tanager.parameters.discriminative.forms`);
- `joining`: families combined into one look-up; `rows`: rows as indices of cells, on any engine,
  with exact sums, and class offsets;
- `fits`: the loss plus a ridge penalty centred per layer, the fit of terms, and the residuals of an
  additive model;
- `optimiser`: the objective's minimum, with bounds and warm-started curvature, and the search for
  strengths on held-out rows.

Mini-batch training (`tanager.training`) is separate: it samples a structure for every batch,
so it has neither fixed cells nor a loss that could be summed exactly over all rows.
"""
