"""The table of parameter learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanager.registry import Registry

if TYPE_CHECKING:
    from tanager.parameters.learner import ParameterLearner

__all__ = ["PARAMETERS", "resolve_parameters"]

PARAMETERS: Registry[ParameterLearner] = Registry(
    "tanager.parameters",
    "learner:ParameterLearner",
    {
        "acll": "acll:ACLLParameters",
        "dfe": "dfe:DFE",
        "discriminative": "discriminative:Discriminative",
        "friedman": "frequencies:FriedmanEstimate",
        "hdp": "hdp:HDP",
        "hybrid": "hybrid:Hybrid",
        "laplace": "frequencies:Laplace",
        "layered": "layered:Layered",
        "m-estimate": "frequencies:MEstimate",
        "ml": "frequencies:MaximumLikelihood",
        "pooled": "pooled:Pooled",
    },
    example="m-estimate(m=1)",
)


def resolve_parameters(parameters: Any) -> ParameterLearner:
    """Return the learner itself, or the one that a text names.

    >>> resolve_parameters("laplace(alpha=0.5)")
    Laplace(alpha=0.5)
    """
    return PARAMETERS.resolve(parameters)
