"""
In a notebook
=============

What a notebook cell displays when its last line is the object: small, self-contained, in light
and dark mode. A network first; a classifier looks similar, with its options and fit time.
"""

from sklearn.datasets import load_breast_cancer

from tanager import BayesNetClassifier

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X = X[[name for name in X.columns if name.startswith("worst")]]
clf = BayesNetClassifier("kdb(k=2)", "m-estimate(m=1)").fit(X[1:], y[1:])
clf.network_

# %%
# An explanation of one row:

clf.explain_row(X[:1])

# %%
# A structure:

clf.structure_

# %%
# A table, in any order that ``sorted`` supports:

clf.network_.table("worst texture").sorted("parents")
