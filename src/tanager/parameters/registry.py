"""The table of parameter learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanager.registry import Registry

if TYPE_CHECKING:
    from tanager.parameters.learner import ParameterLearner
    from tanager.structure import StructureLearner

PARAMETERS: Registry[ParameterLearner] = Registry(
    "tanager.parameters",
    "learner:ParameterLearner",
    {
        "acll": "acll:ACLLParameters",
        "dfe": "dfe:DFE",
        "discriminative": "discriminative:Discriminative",
        "friedman": "frequencies:Friedman",
        "hdp": "hdp:HDP",
        "hybrid": "hybrid:Hybrid",
        "laplace": "frequencies:Laplace",
        "layered": "layered:Layered",
        "m-estimate": "frequencies:MEstimate",
        "ml": "frequencies:MaximumLikelihood",
    },
    example="m-estimate(m=1)",
    group="tanager.parameters",
)


def resolve_parameters(parameters: Any) -> ParameterLearner:
    """Return the learner itself, or look it up by name.

    >>> resolve_parameters("laplace(alpha=0.5)")
    Laplace(alpha=0.5)
    """
    return PARAMETERS.resolve(parameters)


def resolve_pair(structure: Any, parameters: Any) -> tuple[StructureLearner, ParameterLearner]:
    """Return both learners; "auto" picks the structure that suits the parameters.

    >>> resolve_pair("auto", "hdp")
    (TAN(adjusted=True, root='information'), HDP())
    >>> resolve_pair("auto", "layered")
    (KTree(), Layered())
    """
    from tanager.parameters.learner import GroupedLearner
    from tanager.structure import STRUCTURES

    learner = resolve_parameters(parameters)
    if isinstance(structure, str) and structure.strip() == "auto":
        tree = "tan(root='information', adjusted=True)"
        structure = "ktree" if isinstance(learner, GroupedLearner) else tree
    return STRUCTURES.resolve(structure), learner
