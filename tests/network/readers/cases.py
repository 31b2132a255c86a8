"""Random networks, and a writer of every format as the other programs write it."""

from itertools import product

import numpy as np

from tanager.network.exports.bif import Variable


def random_network(rng, n=5, most_parents=3, zeros=0.1, least=1):
    """Return a random network with nodes in no particular order."""
    order = rng.permutation(n)
    sizes = rng.integers(least, 4, n)
    sizes[:2] = 2
    found = {}
    for place, node in enumerate(order):
        k = int(rng.integers(0, min(place, most_parents) + 1))
        parents = tuple(int(p) for p in rng.choice(order[:place], k, replace=False))
        shape = (*(sizes[p] for p in parents), sizes[node])
        table = rng.dirichlet(np.ones(sizes[node]), shape[:-1]).reshape(shape)
        table[rng.random(shape) < zeros] = 0.0
        table[..., 0] += table.sum(axis=-1) == 0
        states = [f"s{s}" for s in rng.permutation(sizes[node])]
        table = table / table.sum(axis=-1, keepdims=True)
        found[int(node)] = Variable(f"n{node}", tuple(states), parents, table)
    return [found[i] for i in range(n)]


def rows_of(variable, variables):
    contexts = product(*(variables[p].states for p in variable.parents))
    flat = variable.probabilities.reshape(-1, len(variable.states))
    return zip(contexts, flat.tolist(), strict=True)


def as_bif(variables):
    lines = ["network unknown {", "  property software = GeNIe;", "}"]
    for v in variables:
        lines.append(f"variable {v.name} {{ // {v.name}")
        lines.append(f"  type discrete [ {len(v.states)} ] {{ {', '.join(v.states)} }};")
        lines += ["  property position = (1, 2);", "}"]
    for v in variables:
        given = ", ".join(variables[p].name for p in v.parents)
        lines.append(f"probability ( {v.name}{' | ' if given else ''}{given} ) {{")
        for context, row in rows_of(v, variables):
            head = f"({', '.join(context)})" if context else "table"
            lines.append(f"  {head} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join(lines)


def as_java_bif(variables):
    """JavaBayes': one table, the child's state the slowest, names quoted, no commas."""
    lines = ['network "java" { //', "}"]
    for v in variables:
        states = " ".join(f'"{s}"' for s in v.states)
        lines.append(f'variable "{v.name}" {{ type discrete[{len(v.states)}] {{ {states} }}; }}')
    for v in variables:
        given = " ".join(f'"{variables[p].name}"' for p in v.parents)
        bar = " | " if given else ""
        numbers = " ".join(map(repr, np.moveaxis(v.probabilities, -1, 0).ravel().tolist()))
        lines.append(f'probability ( "{v.name}"{bar}{given} ) {{ /* all */ table {numbers}; }}')
    return "\n".join(lines)


def as_xmlbif(variables):
    lines = ['<?xml version="1.0"?>', "<!DOCTYPE BIF [ <!ELEMENT BIF (NETWORK)*> ]>"]
    lines += ['<BIF VERSION="0.3"><NETWORK><NAME>n</NAME>']
    for v in variables:
        states = "".join(f"<OUTCOME>{s}</OUTCOME>" for s in v.states)
        lines.append(f'<VARIABLE TYPE="nature"><NAME>{v.name}</NAME>{states}</VARIABLE>')
    for v in variables:
        given = "".join(f"<GIVEN>{variables[p].name}</GIVEN>" for p in v.parents)
        rows = "\n".join(" ".join(map(repr, row)) for _, row in rows_of(v, variables))
        lines.append(f"<DEFINITION><FOR>{v.name}</FOR>{given}<TABLE><!-- rows -->{rows}</TABLE>")
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK></BIF>"])


def as_xdsl(variables):
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<smile version="1.0" id="n"><nodes>']
    for v in variables:
        certain = bool(np.isin(v.probabilities, (0.0, 1.0)).all())
        kind = "deterministic" if certain else "cpt"
        lines.append(f'<{kind} id="{v.name}">')
        lines += [f'<state id="{s}" />' for s in v.states]
        if v.parents:
            lines.append(f"<parents>{' '.join(variables[p].name for p in v.parents)}</parents>")
        flat = v.probabilities.reshape(-1, len(v.states))
        if certain:
            results = " ".join(v.states[int(row.argmax())] for row in flat)
            lines.append(f"<resultingstates>{results}</resultingstates>")
        else:
            numbers = " ".join(map(repr, flat.ravel().tolist()))
            lines.append(f"<probabilities>{numbers}</probabilities>")
        lines.append(f"</{kind}>")
    end = '</nodes><extensions><genie version="1.0" app="GeNIe 4.1"></genie></extensions></smile>'
    return "\n".join([*lines, end])


def as_net(variables):
    lines = ["class n {", "inputs = ();", "node_size = (80 40);"]
    for v in variables:
        states = " ".join(f'"{s}"' for s in v.states)
        lines.append(f'node {v.name} {{ label = "a % b"; states = ({states}); }}')
    for v in variables:
        given = " ".join(variables[p].name for p in v.parents)
        rows = " ".join(f"({' '.join(map(repr, row))})" for _, row in rows_of(v, variables))
        lines.append(f"potential ( {v.name} | {given} ) {{ data = ({rows}); % rows")
        lines.append("}")
    return "\n".join([*lines, "}"])


WRITERS = {
    "bif": ("bif", as_bif),
    "java": ("bif", as_java_bif),
    "xmlbif": ("xmlbif", as_xmlbif),
    "xdsl": ("xdsl", as_xdsl),
    "net": ("net", as_net),
}
