"""
Predictions explained
=====================

From the prior to the posterior, with the probability after each step. A contribution counts only
what a feature adds to its parents, so a feature that's informative on its own may contribute
nothing; the note below the plot lists such features and the parents concerned.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tanager import BayesNetClassifier
from tanager.report import plot_explanation

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
clf = BayesNetClassifier("tan", "m-estimate(m=1)").fit(X_train, y_train)
plot_explanation(clf, X_test[13:14])

# %%
# The contributions in every row, by feature, coloured by the feature's value.

from tanager.report import plot_beeswarm

default = BayesNetClassifier(random_state=0).fit(X_train, y_train)
plot_beeswarm(default, X_test, most=10)
