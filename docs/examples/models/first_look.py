"""
A first look
============

A network, one prediction and a calibration plot: the pictures of the opening page.
"""

# %%
# Ten measurements of tumours. The darker a box, the more informative the feature is about the
# class; the wider an arrow, the stronger the dependence. The legend gives both in bits. Networks
# wider than ``max_width`` are drawn from top to bottom, for example for a phone.

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tanager import BayesNetClassifier
from tanager.report import plot_network

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X = X[[name for name in X.columns if name.startswith("worst")]]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
clf = BayesNetClassifier("tan", "m-estimate(m=1)").fit(X_train, y_train)
plot_network(clf, max_width=400)

# %%
# One tumour's prediction, from the prior to the posterior, with the probability after each step.
# Use ``most`` to limit the number of features.

from tanager.report import plot_explanation

plot_explanation(clf, X_test[13:14], most=6)

# %%
# Does diabetes progress? Among patients with about the same predicted probability, how many got
# worse? Bars show two standard errors.

from sklearn.datasets import load_diabetes

from tanager.report import plot_calibration

sick = load_diabetes(as_frame=True)
worse = (sick.target > 140).map({True: "worse", False: "better"}).to_numpy()
halves = train_test_split(sick.data, worse, test_size=0.5, random_state=0)
doctor = BayesNetClassifier().fit(halves[0], halves[2])
plot_calibration(doctor, halves[1], halves[3], n_bins=7)
