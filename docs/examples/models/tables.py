"""
Tables and effects
==================

Tables with up to 40 contexts show one row of numbers per context.
"""

from sklearn.datasets import load_breast_cancer

from tanager import BayesNetClassifier
from tanager.report import plot_table

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
clf = BayesNetClassifier("tan", "m-estimate(m=1)").fit(X, y)
plot_table(clf, "worst texture", sort="parents")

# %%
# A larger table is a heat map with a colour scale. ``sort="center"`` puts similar contexts next
# to each other.

few = [name for name in X.columns if name.startswith("worst")]
wide = BayesNetClassifier("kdb(k=2)", "m-estimate(m=1)", bins=8).fit(X[few], y)
plot_table(wide, "worst concavity", sort="center")

# %%
# The contribution of each value to the log-odds when nothing else is known, with 95 % intervals
# from the counts of the rows you pass.

from tanager.report import plot_effect

plot_effect(clf, "worst area", X, y)
