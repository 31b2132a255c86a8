"""Plots of a training by gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tanager.errors import ConfigurationError
from tanager.network.network import network_of
from tanager.report.style import CYCLE, new_figure, styled

__all__ = ["plot_training"]


@styled
def plot_training(model: Any) -> Any:
    """Draw loss, accuracy, temperature and structure entropy of a training, epoch by epoch.

    Parameters
    ----------
    model : BayesNetClassifier or mapping
        A fitted classifier, whose search for a structure is drawn, or where there was none
        the training of its tables. Or one of the two: ``clf.info_["structure"]`` after
        ``structure="differentiable"``, ``clf.info_["parameters"]`` after
        ``parameters="hybrid"``.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels; the second only where a structure was learned.

    Examples
    --------
    >>> trace = {"loss": [3.0, 2.0], "accuracy": [0.5, 0.7]}
    >>> figure = plot_training({"trace": trace})
    >>> len(figure.axes)
    2
    """
    info = _training_of(model)
    trace = info["trace"]
    searched = "entropy" in trace
    figure = new_figure(10 if searched else 5.5, 4)
    panels = figure.subplots(1, 2 if searched else 1, squeeze=False)[0]
    _pair(panels[0], trace["loss"], "loss", trace["accuracy"], "accuracy", logarithmic=False)
    if searched:
        entropy, temperature = trace["entropy"], trace["temperature"]
        names = "entropy of parents (nats)", "temperature"
        _pair(panels[1], entropy, names[0], temperature, names[1], logarithmic=True)
    for panel in panels:
        panel.set_xlabel("epoch")
    return figure


def _training_of(model: Any) -> Mapping[str, Any]:
    """Return the record that has a training's trace, of the structure before the parameters."""
    if isinstance(model, Mapping):
        records = [model]
    else:
        network_of(model)  # what is not fitted is refused as by the other plots
        info = getattr(model, "info_", {})  # a network alone has none
        records = [info.get(stage, {}) for stage in ("structure", "parameters")]
    for record in records:
        if "loss" in (record.get("trace") or ()):
            return record
    raise ConfigurationError(
        "There is no training by gradient to draw: no 'trace' with a 'loss' was kept. Hint: give "
        "a classifier fitted with structure='differentiable' or parameters='hybrid', or its "
        "info_['structure'] or info_['parameters']."
    )


def _pair(
    left: Any,
    first: list[float],
    first_name: str,
    second: list[float],
    second_name: str,
    *,
    logarithmic: bool,
) -> None:
    """Draw two curves on one panel, each on a scale of its own."""
    left.plot(_epochs(first), first, color=CYCLE[0])
    left.set_ylabel(first_name, color=CYCLE[0])
    right = left.twinx()
    right.plot(_epochs(second), second, color=CYCLE[1], label=second_name)
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    right.set_ylabel(second_name, color=CYCLE[1])
    if logarithmic:
        right.set_yscale("log")


def _epochs(values: list[float]) -> range:
    return range(1, len(values) + 1)
