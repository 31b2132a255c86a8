"""Constraints on arcs: the public class, and the limits on feature indices it resolves to."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, listed, nearest
from tanager.estimator import is_whole
from tanager.numerics import Ints
from tanager.structure.structure import Structure

Flags = NDArray[np.bool_]
Arc = tuple[int, int]  # from parent to child

NO_LIMIT = 1 << 30
ANY = "*"
JOINED = "parents that are joined among themselves"


class Ban(NamedTuple):
    """A statement that rules out all arcs from one set of features to another."""

    text: str
    above: frozenset[int]
    below: frozenset[int]

    def rules_out(self, arc: Arc) -> bool:
        """Whether this arc is ruled out."""
        return arc[0] in self.above and arc[1] in self.below


@dataclass(frozen=True, eq=False)
class Limits:
    """Constraints on features by index; see `Constraints`."""

    names: tuple[str, ...]
    # (n, n); whether the column's feature may be a parent of the row's; the diagonal is unused
    allowed: Flags
    required: tuple[tuple[int, ...], ...]  # required parents of each feature
    most: Ints  # (n,); maximum number of parents of each feature
    before: Flags  # (n, n); whether tiers or order put the row's feature before the column's
    bans: tuple[Ban, ...] = field(default=(), repr=False)

    @classmethod
    def none(cls, names: Sequence[str]) -> Limits:
        """Return limits that allow everything."""
        n = len(names)
        every, no = (np.broadcast_to(np.bool_(flag), (n, n)) for flag in (True, False))
        return cls(tuple(names), every, ((),) * n, np.full(n, NO_LIMIT, np.int64), no)

    @property
    def n_required(self) -> int:
        """The largest number of required parents of any feature."""
        return max((len(parents) for parents in self.required), default=0)

    def take(self, features: Sequence[int] | Ints) -> Limits:
        """Return the limits of some features, in the given order; arcs to others are dropped."""
        kept = np.asarray(features, np.int64)
        place = {int(feature): at for at, feature in enumerate(kept)}
        required = tuple(tuple(place[p] for p in self.required[f] if p in place) for f in place)
        square, names = np.ix_(kept, kept), tuple(self.names[f] for f in place)
        return Limits(names, self.allowed[square], required, self.most[kept], self.before[square])

    def parents_of(self, feature: int, earlier: Ints, k: int) -> tuple[tuple[int, ...], Ints, int]:
        """Return required parents, other earlier features allowed, and how many may be added."""
        required = self.required[feature]
        others = earlier[self.allowed[feature, earlier] & ~np.isin(earlier, required)]
        return required, others, max(min(k, int(self.most[feature])) - len(required), 0)

    def told(self, child: int, parents: Iterable[int]) -> list[str]:
        """Return the statements that require a feature's parents."""
        return [f"required ({self.names[p]!r}, {self.names[child]!r})" for p in parents]

    def check_learner(self, most: int, learner: str) -> None:
        """Refuse more required parents than the learner can give a feature."""
        text = f"{learner} gives a feature at most {most} parents besides the class"
        for child, parents in enumerate(self.required):
            if len(parents) > most:
                refuse_contradiction([*self.told(child, parents[: most + 1]), text])

    def arrange(self, order: Sequence[int] | Ints) -> Ints:
        """Return the given order, required parents first and, if possible, earlier tiers first."""
        given = np.array(order, np.int64)
        if not (self.n_required or self.before.any()):
            return given
        hard, soft = self.needed.sum(axis=0), self.before.sum(axis=0)
        left, result = np.ones(len(given), np.bool_), []
        for _ in given:
            ready = left & (hard[given] == 0)
            early = ready & (soft[given] == 0)
            place = int(np.argmax(early if early.any() else ready))
            left[place] = False
            result.append(int(given[place]))
            hard, soft = hard - self.needed[result[-1]], soft - self.before[result[-1]]
        return np.array(result, np.int64)

    @cached_property
    def needed(self) -> Flags:
        """Whether the row's feature is a required parent of the column's, shape (n, n)."""
        needed = np.zeros_like(self.before)
        for child, required in enumerate(self.required):
            needed[list(required), child] = True
        return needed

    def moral(self, order: Sequence[int] | Ints) -> Limits:
        """Return limits that also join the required parents of a feature, along `order`."""
        place = {int(feature): at for at, feature in enumerate(order)}
        required = [set(parents) for parents in self.required]
        for child in sorted(place, key=place.__getitem__, reverse=True):
            parents = sorted(required[child], key=place.__getitem__)
            for earlier, later in combinations(parents, 2):
                if not self.allowed[later, earlier]:
                    bans = [ban.text for ban in self.bans if ban.rules_out((earlier, later))]
                    refuse_contradiction([*self.told(child, (earlier, later)), *bans[:1], JOINED])
                required[later].add(earlier)
        kept = tuple(
            (*self.required[f], *sorted(more - set(self.required[f]), key=place.__getitem__))
            for f, more in enumerate(required)
        )
        for child, above in enumerate(kept):
            if len(above) > self.most[child]:
                limit = f"max_parents of {self.names[child]!r}: {self.most[child]}"
                refuse_contradiction([*self.told(child, self.required[child]), limit, JOINED])
        return replace(self, required=kept)

    def check_structure(self, structure: Structure, left_out: Collection[int] = ()) -> None:
        """Refuse a structure that violates the constraints."""
        found = dict(structure.families)
        for child, parents in enumerate(self.required):
            for parent in (p for p in parents if p not in found.get(child, ())):
                why = (
                    "its table would be too large, or the learner doesn't produce it. Choose "
                    "another learner, or coarser bins."
                )
                gone = [self.names[f] for f in (parent, child) if f in left_out]
                if gone:
                    why = f"the audit leaves out {gone[0]!r}. Name it in categorical_features."
                (arc,) = self.told(child, (parent,))
                raise ConfigurationError(f"The structure lacks the {arc}: {why}")
        for child, parents in found.items():
            wrong = [f"the parent {self.names[p]!r}" for p in parents if not self.allowed[child, p]]
            if len(parents) > self.most[child]:
                wrong.append(f"more parents than {self.most[child]}")
            if wrong:
                raise ConfigurationError(
                    f"The structure does not satisfy the constraints: {self.names[child]!r} has "
                    f"{wrong[0]}. Change the constraints, or choose a learner that takes them."
                )


def refuse_contradiction(texts: Sequence[str]) -> NoReturn:
    """Refuse statements that contradict each other."""
    told = f"{', '.join(texts[:-1])} and {texts[-1]}"
    raise ConfigurationError(f"The constraints contradict one another: {told}. Drop one of them.")


@dataclass(frozen=True)
class Constraints:
    """Constraints on a learned structure, for every learner that searches.

    The class is always a parent of every feature; constraints are about arcs between features.

    Parameters
    ----------
    required : sequence of (parent, child)
        Arcs the structure must have.
    forbidden : sequence of (parent, child)
        Arcs it must not have; ``"*"`` matches any feature.
    tiers : sequence of sequences of names
        Groups of features from the earliest to the latest, such as those known at birth, at
        admission, at discharge: no arc leads from a later tier to an earlier one.
    order : sequence of names
        Features from the earliest to the latest, as tiers of one.
    roots : sequence of names
        Features with no parents other than the class.
    leaves : sequence of names
        Features without children.
    max_parents : int, mapping of names to int, or None
        The maximum number of parents of every feature, or of some, not counting the class.

    Notes
    -----
    Features not named in `tiers` or `order` are free. If constraints contradict each other, the
    error names the smallest contradictory set. `TAN`, `ACLL` and `RandomTree` find the heaviest
    branching that satisfies the constraints, without arcs of negative weight unless required; the
    other learners search as usual, among the allowed arcs.

    Examples
    --------
    >>> from tanager import BayesNetClassifier, Constraints
    >>> X = [["a", "a", "u"], ["b", "b", "v"], ["a", "b", "u"], ["b", "a", "u"]] * 5
    >>> known = Constraints(required=[("x1", "x0")], forbidden=[("*", "x2")])
    >>> clf = BayesNetClassifier("tan", "laplace", constraints=known).fit(X, [0, 0, 1, 1] * 5)
    >>> dict(clf.structure_.parents)
    {'x0': ('x1',), 'x1': ('x2',), 'x2': ()}
    """

    required: Sequence[tuple[str, str]] = ()
    forbidden: Sequence[tuple[str, str]] = ()
    tiers: Sequence[Sequence[str]] = ()
    order: Sequence[str] = ()
    roots: Sequence[str] = ()
    leaves: Sequence[str] = ()
    max_parents: int | Mapping[str, int] | None = None

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Constraints:
        """Read constraints from a TOML file whose keys are the parameters.

        An arc is a list of two names, ``["age", "disease"]``, or a string, ``"age -> disease"``.
        """
        import tomllib

        with Path(path).open("rb") as file:
            try:
                data = tomllib.load(file)
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ConfigurationError(f"{path}: this is not TOML ({error}).") from error
        known = [item.name for item in fields(cls)]
        for key in (key for key in data if key not in known):
            raise ConfigurationError(
                f"{path}: {key!r} isn't valid.{nearest(key, known)} Allowed: {listed(known)}."
            )
        for key in ("required", "forbidden"):
            arcs = data.get(key, [])
            if isinstance(arcs, list):
                data[key] = [
                    [part.strip() for part in arc.split("->")] if isinstance(arc, str) else arc
                    for arc in arcs
                ]
        return cls(**data)

    def resolve(self, names: Sequence[str], target: str = "") -> Limits:
        """Return the constraints by feature index; contradictions are refused.

        `target` is the name of the class, which arcs may name.
        """
        return _ConstraintReader(self, tuple(names), target).read()


def _wrong(text: str) -> ConfigurationError:
    return ConfigurationError(f"constraints: {text}")


class _ConstraintReader:
    """Converts constraints by name into limits by index."""

    def __init__(self, given: Constraints, names: tuple[str, ...], target: str) -> None:
        self._given, self._names = given, names
        self._place = {name: at for at, name in enumerate(names)}
        self._target = None if target in self._place else target

    def read(self) -> Limits:
        n, given = len(self._names), self._given
        arcs = [(min(ban.above), min(ban.below)) for ban in self._arcs("required")]
        required = list(dict.fromkeys(arcs))
        order = [[name] for name in self._list("order", given.order)]
        tiers = self._list("tiers", given.tiers)
        orders = [*self._order("tiers", tiers), *self._order("order", order)]
        bans = [*self._arcs("forbidden"), *orders, *self._ends()]
        most, texts = self._most()
        allowed, before = ~np.eye(n, dtype=np.bool_), np.zeros((n, n), np.bool_)
        for ban in bans:
            allowed[np.ix_(list(ban.below), list(ban.above))] = False
        for ban in orders:
            before[np.ix_(list(ban.below), list(ban.above))] = True
        parents = tuple(tuple(p for p, child in required if child == at) for at in range(n))
        limits = Limits(self._names, allowed, parents, most, before, tuple(bans))
        _refuse_smallest(limits, required, texts)
        return limits

    def _find(self, name: Any, where: str) -> frozenset[int]:
        if name == ANY and where == "forbidden":
            return frozenset(range(len(self._names)))
        if name not in self._place:
            hint = f"{nearest(name, self._names)} Features: {listed(self._names)}."
            raise _wrong(f"{where} names {name!r}, which is not a feature.{hint}")
        return frozenset([self._place[name]])

    def _list(self, where: str, given: Any) -> Sequence[Any]:
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise _wrong(f"{where}={given!r}. Give a list.")
        return given

    def _arcs(self, where: str) -> Iterator[Ban]:
        """Iterate over arcs, skipping those that involve the class."""
        for arc in self._list(where, getattr(self._given, where)):
            if isinstance(arc, str) or not isinstance(arc, Sequence) or len(arc) != 2:
                raise _wrong(f"{where} has {arc!r}. Give pairs (parent, child).")
            parent, child = arc
            said = f"{where} has ({parent!r}, {child!r})"
            if where == "required" and child == self._target:
                raise _wrong(
                    f"{said}, but {child!r} is the class, which has no parents here: it is the "
                    f"parent of every feature. Leave the arc out; {parent!r} informs {child!r} all "
                    "the same."
                )
            if where == "forbidden" and parent == self._target:
                raise _wrong(
                    f"{said}, but {parent!r} is the class, the parent of every feature. Drop the "
                    "column to leave a feature out."
                )
            if self._target in (parent, child):
                continue
            if parent == child:
                raise _wrong(f"{said}: no feature is its own parent. Name two.")
            text = f"{where} ({parent!r}, {child!r})"
            yield Ban(text, self._find(parent, where), self._find(child, where))

    def _order(self, where: str, groups: Sequence[Any]) -> Iterator[Ban]:
        """Yield one statement per group: later features can't be its parents."""
        named = [name for group in groups for name in self._list(where, group)]
        later = frozenset[int]().union(*(self._find(name, where) for name in named))
        if len(later) != len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise _wrong(f"{where} names {twice!r} twice. Name it once.")
        for group in groups:
            own = frozenset[int]().union(*(self._find(name, where) for name in group))
            later -= own
            yield Ban(where, later, own)

    def _ends(self) -> Iterator[Ban]:
        everyone = self._find(ANY, "forbidden")
        for name in self._list("roots", self._given.roots):
            yield Ban(f"roots {name!r}", everyone, self._find(name, "roots"))
        for name in self._list("leaves", self._given.leaves):
            yield Ban(f"leaves {name!r}", self._find(name, "leaves"), everyone)

    def _most(self) -> tuple[Ints, list[str]]:
        """Return each feature's maximum number of parents, and the statement of it."""
        given, names = self._given.max_parents, self._names
        most, texts = np.full(len(names), NO_LIMIT, np.int64), [""] * len(names)
        every: dict[str, Any] = {} if given is None else dict.fromkeys(names, given)
        for name, limit in (given if isinstance(given, Mapping) else every).items():
            if not is_whole(limit, 0):
                raise _wrong(f"max_parents has {limit!r}. Give whole numbers from 0 on.")
            (at,) = self._find(name, "max_parents")
            told = {name: limit} if isinstance(given, Mapping) else limit
            most[at], texts[at] = limit, f"max_parents {told}"
        return most, texts


def _refuse_smallest(limits: Limits, required: list[Arc], texts: list[str]) -> None:
    """Name the smallest set of statements that no structure satisfies.

    If any structure satisfies all statements, so does that of the required arcs alone. So a
    contradiction is a required arc with a statement that rules it out, more required parents than a
    feature may have (as `texts` say), or a cycle of required arcs.
    """
    said = {(parent, child): limits.told(child, (parent,)) for parent, child in required}
    found = [
        [*said[arc], ban.text] for arc in required for ban in limits.bans if ban.rules_out(arc)
    ]
    for child, (parents, most) in enumerate(zip(limits.required, limits.most, strict=True)):
        if len(parents) > most:
            found.append([*limits.told(child, parents[: most + 1]), texts[child]])
    cycle = _shortest_cycle(required)
    if cycle:
        found.append([text for arc in cycle for text in said[arc]])
    if found:
        refuse_contradiction(min(found, key=len))


def _shortest_cycle(arcs: Sequence[Arc]) -> list[Arc]:
    """Return the arcs of a shortest cycle, in order; empty if there is none."""
    below, best = defaultdict[int, list[int]](list), list[Arc]()
    for parent, child in arcs:
        below[parent].append(child)
    for start in list(below):
        paths, seen = [[start]], {start}
        for path in paths:  # breadth-first: the list grows during iteration
            for child in below[path[-1]]:
                if child == start and (not best or len(path) < len(best)):
                    best = list(pairwise([*path, start]))
                if child not in seen:
                    seen.add(child)
                    paths.append([*path, child])
    return best
