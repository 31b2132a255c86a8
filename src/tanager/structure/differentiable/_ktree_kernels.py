"""Drawing a k-tree along an ordering, and the way back.

Shapes: n features, S slots, k members of a slot (its parents, -1 where there
are fewer). Slot 0 has none, so a feature always has an open slot.
"""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel(inline="always")
def _gaps(members, joined):
    """Return how many pairs of a slot's members (k,) are not joined."""
    gaps = 0
    for a in range(members.shape[0]):
        for b in range(a + 1, members.shape[0]):
            if members[a] >= 0 and members[b] >= 0 and not joined[members[a], members[b]]:
                gaps += 1
    return gaps


@kernel
def draw(scores, members, n_slots, order, chosen, gaps, joined):
    """Let every feature in its turn take the best slot whose members are joined.

    scores (n, S), members (n, S, k). Writes chosen (n,), gaps (n, S), the pairs
    of members that were not joined when the turn came, and joined (n, n), which
    comes as zeros: the edges drawn.
    """
    for i in order:
        best = 0
        for s in range(n_slots[i]):
            gaps[i, s] = _gaps(members[i, s], joined)
            if gaps[i, s] == 0 and scores[i, s] > scores[i, best]:
                best = s
        chosen[i] = best
        for p in members[i, best]:
            if p >= 0:
                joined[i, p] = True
                joined[p, i] = True


@kernel
def _mean_of_others(weights, pulls, gaps, n_slots, s):
    """Return the mean of the open slots but one; by a sum of its own, since it may have all."""
    total = 0.0
    sum_ = 0.0
    for t in range(n_slots):
        if t != s and gaps[t] == 0:
            total += weights[t]
            sum_ += weights[t] * pulls[t]
    return sum_ / total


@kernel
def go_back(scores, by_choice, tau, members, n_slots, order, gaps, joined, value, out):
    """Write the derivative by the scores (n, S) to out, from that by the one-hot choice.

    Features from the last to the first: value (n, n), which comes as zeros,
    gathers what an edge is worth to later features, the mean of a feature's
    pulls with the slots that the edge opens less the mean without them.
    """
    weights = np.empty(scores.shape[1])
    pulls = np.empty(scores.shape[1])
    for i in order[::-1]:
        top = scores[i, 0]
        for s in range(n_slots[i]):
            top = max(top, scores[i, s])
        total = 0.0
        sum_ = 0.0
        for s in range(n_slots[i]):
            # Slots of no weight at all would leave nothing to divide by.
            weights[s] = np.exp(max((scores[i, s] - top) / tau, -500.0))
            pulls[s] = by_choice[i, s]
            for p in members[i, s]:
                if p >= 0:
                    pulls[s] += value[i, p]
            if gaps[i, s] == 0:
                total += weights[s]
                sum_ += weights[s] * pulls[s]
        mean = sum_ / total
        for s in range(n_slots[i]):
            if gaps[i, s] == 0:
                out[i, s] = weights[s] / total * (pulls[s] - mean) / tau
            if gaps[i, s] > 1 or members.shape[2] < 2 or members[i, s, 1] < 0:
                continue  # no single edge opens it, or it needs none
            if gaps[i, s] == 0:
                without = _mean_of_others(weights, pulls, gaps[i], n_slots[i], s)
                worth = weights[s] / total * (pulls[s] - without)
            else:
                worth = weights[s] / (total + weights[s]) * (pulls[s] - mean)
            for a in range(members.shape[2]):
                for b in range(a + 1, members.shape[2]):
                    p, q = members[i, s, a], members[i, s, b]
                    if p >= 0 and q >= 0 and (gaps[i, s] == 0 or not joined[p, q]):
                        value[p, q] += worth
                        value[q, p] += worth
