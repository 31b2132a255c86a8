"""Posteriors of a discrete network by enumerating every combination of states."""

from itertools import product

import numpy as np


def posterior(variables, target, evidence):
    """Return P(target | evidence) of exports.variables.Variable; evidence by name and state."""
    names = [v.name for v in variables]
    root = names.index(target)
    fixed = {
        names.index(name): variables[names.index(name)].states.index(state)
        for name, state in evidence.items()
    }
    out = np.zeros(len(variables[root].states))
    ranges = [[fixed[i]] if i in fixed else range(len(v.states)) for i, v in enumerate(variables)]
    for states in product(*ranges):
        chance = 1.0
        for i, v in enumerate(variables):
            chance *= v.probabilities[(*(states[p] for p in v.parents), states[i])]
        out[states[root]] += chance
    return out / out.sum()
