"""The scikit-learn estimator; `tanager` exports its names."""
