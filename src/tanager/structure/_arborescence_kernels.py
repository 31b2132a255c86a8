"""Maximum arborescence of a dense graph by contraction of cycles."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def _heaviest(row, component, own):
    """Return the source of the heaviest edge from outside; n_vertices stands for "no parent".

    The last entry of `row` is the edge from nowhere: it is taken only where no
    real edge is left, however heavy it is.
    """
    n = component.shape[0]
    best = n
    for u in range(n):
        if component[u] != own and row[u] > -np.inf and (best == n or row[u] > row[best]):
            best = u
    return best


@kernel
def _contract(members, entry, weight, head, component, owner):
    """Fold the rows of a cycle's members into the row of the first, in place.

    An edge into the cycle at member m replaces the edge that entered m, so it
    is worth its weight less that of m's own edge. `head` keeps the vertex at
    which each source's best edge arrives.
    """
    n = component.shape[0]
    into = owner[members[0]]
    loss = weight[into, entry[members[0]]]
    for u in range(n + 1):
        weight[into, u] -= loss
    for m in members[1:]:
        row = owner[m]
        loss = weight[row, entry[m]]
        for u in range(n + 1):
            gain = weight[row, u] - loss
            if gain > weight[into, u]:
                weight[into, u] = gain
                head[into, u] = head[row, u]
    return into


@kernel
def arborescence(weight, parents):
    """Tarjan's optimum branching on a dense matrix, in O(n^2).

    weight (n, n + 1): edge into the row's vertex from the column's, -inf where
    there is none, last column the edge from nowhere; destroyed. Writes parents
    (n,), -1 for a root. Components are vertices 0..n-1 and contracted cycles
    n..2n-2; each grows a path backwards along heaviest edges until it meets
    something finished.
    """
    n = parents.shape[0]
    head = np.empty((n, n + 1), np.int64)
    for v in range(n):
        head[v, :] = v
    component = np.arange(n)  # of every vertex
    owner = np.arange(2 * n)  # row of `weight` that a component uses
    inside = np.full(2 * n, -1)  # the cycle that swallowed a component
    entry = np.full(2 * n, -1)  # source of the edge chosen into a component
    arrival = np.full(2 * n, -1)  # the vertex at which that edge arrives
    finished = np.zeros(2 * n, np.bool_)
    place = np.full(2 * n, -1)  # position on the current path
    path = np.empty(2 * n, np.int64)
    n_components = n
    for start in range(n):
        if finished[component[start]]:
            continue
        length = 1
        path[0] = component[start]
        place[path[0]] = 0
        while True:
            tip = path[length - 1]
            source = _heaviest(weight[owner[tip]], component, tip)
            entry[tip] = source
            arrival[tip] = head[owner[tip], source]
            if source == n or finished[component[source]]:
                break
            before = component[source]
            if place[before] < 0:
                place[before] = length
                path[length] = before
                length += 1
                continue
            first = place[before]
            members = path[first:length]
            into = _contract(members, entry, weight, head, component, owner)
            cycle = n_components
            n_components += 1
            owner[cycle] = into
            for m in members:
                inside[m] = cycle
                place[m] = -1
            for u in range(n):
                if component[u] != cycle and inside[component[u]] == cycle:
                    component[u] = cycle
            path[first] = cycle
            place[cycle] = first
            length = first + 1
        for at in range(length):
            finished[path[at]] = True
            place[path[at]] = -1
    # Undo the contractions, latest first: the edge into a cycle replaces the
    # edge into the member where it arrives.
    for cycle in range(n_components - 1, n - 1, -1):
        member = arrival[cycle]
        while inside[member] != cycle:
            member = inside[member]
        entry[member] = entry[cycle]
        arrival[member] = arrival[cycle]
    for v in range(n):
        parents[v] = entry[v] if entry[v] < n else -1
