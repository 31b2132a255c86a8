"""Parameter learners by name: the one place where strings become learners."""

from __future__ import annotations

from importlib import import_module

from tanager.errors import ConfigurationError
from tanager.parameters.learner import ParameterLearner

__all__ = ["PARAMETERS", "resolve_parameters"]

PARAMETERS = {
    "acll": "tanager.parameters.acll:ACLLParameters",
    "dfe": "tanager.parameters.discriminative:DFE",
    "discriminative": "tanager.parameters.discriminative:Discriminative",
    "friedman": "tanager.parameters.frequencies:FriedmanEstimate",
    "hybrid": "tanager.parameters.hybrid:Hybrid",
    "hdp": "tanager.parameters.hdp:HDP",
    "laplace": "tanager.parameters.frequencies:Laplace",
    "m-estimate": "tanager.parameters.frequencies:MEstimate",
    "pooled": "tanager.parameters.pooled:Pooled",
    "ml": "tanager.parameters.frequencies:MaximumLikelihood",
}


def resolve_parameters(parameters: str | ParameterLearner) -> ParameterLearner:
    """Return the learner itself, or the one of that name with its defaults.

    >>> resolve_parameters("laplace")
    Laplace()
    """
    if isinstance(parameters, ParameterLearner):
        return parameters
    if not isinstance(parameters, str) or parameters not in PARAMETERS:
        allowed = ", ".join(map(repr, sorted(PARAMETERS)))
        raise ConfigurationError(
            f"parameters={parameters!r} is not known. Give one of {allowed}, "
            "or a learner from tanager.parameters such as MEstimate(m=1.0)."
        )
    module, name = PARAMETERS[parameters].split(":")
    learner: ParameterLearner = getattr(import_module(module), name)()
    return learner
