"""A structure, the interface of its learners, and the plan of a fit passed to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Domain, Groups, Rows
from tanager.codes.groups import group_rows, learn_groups
from tanager.counts import Counts, PriorCounts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, listed, nearest
from tanager.escaping import visible
from tanager.estimator import Estimator
from tanager.numerics import Floats

if TYPE_CHECKING:
    from tanager.loglinear.fits import Residuals
    from tanager.structure.constraints import Limits

SHOWN_FEATURES = 40  # features printed


@dataclass(frozen=True)
class Structure:
    """Which features condition which; the class is always a parent.

    Attributes
    ----------
    names : tuple of str
        All features of the table, in the order of the codes.
    selected : tuple of int
        The features kept, as indices into `names`. Parents are among them.
    parent_indices : tuple of tuple of int
        Each one's parents, in back-off order: the last is dropped first if a context is unseen.

    Examples
    --------
    >>> s = Structure(("a", "b", "c"), (0, 1), ((), (0,)))
    >>> s.features
    ('a', 'b')
    >>> dict(s.parents)
    {'a': (), 'b': ('a',)}
    >>> s
    Structure: 2 of 3 features, 1 edge
      a
      b <- a
    """

    names: tuple[str, ...]
    selected: tuple[int, ...]
    parent_indices: tuple[tuple[int, ...], ...]

    def shortened(self, n_parents: int) -> Structure:
        """Return the structure with at most the first `n_parents` parents of each feature."""
        shorter = tuple(parents[:n_parents] for parents in self.parent_indices)
        return replace(self, parent_indices=shorter)

    def restricted(self, allowed: Callable[[int, tuple[int, ...]], bool]) -> Structure:
        """Return the structure with trailing parents dropped until each family is `allowed`.

        A moral structure stays moral: if a parent loses another parent, the two are no longer
        connected, and the feature keeps the earlier of them.

        >>> chain = Structure.from_parents("abc", [(), (0,), (0, 1)])
        >>> chain.restricted(lambda feature, parents: feature != 1).parent_indices
        ((), (), (0,))
        """
        moral = self.is_moral()
        kept: dict[int, tuple[int, ...]] = {}
        for at in self.topological_order():
            feature, parents = self.selected[at], self.parent_indices[at]
            while parents and not (
                allowed(feature, parents) and (not moral or _holder(parents, kept) is not None)
            ):
                parents = parents[:-1]
            kept[feature] = parents
        return replace(self, parent_indices=tuple(kept[feature] for feature in self.selected))

    def without(self, features: Collection[int]) -> Structure:
        """Return the structure without some features, given as indices; a moral one stays moral."""
        left = {
            feature: tuple(parent for parent in parents if parent not in features)
            for feature, parents in self.families
            if feature not in features
        }
        smaller = Structure(self.names, tuple(left), tuple(left.values()))
        return smaller.shortened(1) if self.is_moral() and not smaller.is_moral() else smaller

    def within(self, domain: Domain, limit: int) -> Structure:
        """Return the structure with trailing parents dropped from tables larger than `limit`."""

        def fits(feature: int, parents: tuple[int, ...]) -> bool:
            size = prod(int(domain.arities[i]) for i in (feature, *parents))
            return size * domain.n_classes <= limit

        return self.restricted(fits)

    def holders(self) -> list[int]:
        """Return the position of each feature's parent whose family has all its parents, or -1."""
        families = dict(self.families)
        found = (_holder(parents, families) for parents in self.parent_indices)
        return [-1 if holder is None else self._places[holder] for holder in found]

    def is_moral(self) -> bool:
        """Return whether the parents of every feature are connected to each other.

        >>> Structure.from_parents("abc", [(), (0,), (0, 1)]).is_moral()
        True
        >>> Structure.from_parents("abc", [(), (), (0, 1)]).is_moral()
        False
        """
        pairs = zip(self.parent_indices, self.holders(), strict=True)
        return all(not parents or holder >= 0 for parents, holder in pairs)

    def __post_init__(self) -> None:
        kept = set(self.selected)
        if len(kept) != len(self.selected) or len(self.parent_indices) != len(self.selected):
            raise ConfigurationError("A structure lists each feature once, with its parents.")
        for feature, parents in self.families:
            name, missing = self.names[feature], [p for p in parents if p not in kept]
            problem = f"The parents of {name!r} must be distinct features other than itself."
            if missing:
                lost = self.names[missing[0]]
                problem = f"{lost!r} is a parent of {name!r} but is not in the structure itself."
            if missing or feature in parents or len(set(parents)) != len(parents):
                raise ConfigurationError(problem)
        self.topological_order()

    @classmethod
    def from_parents(cls, names: Sequence[str], parents: Sequence[Sequence[int]]) -> Structure:
        """Build a structure that keeps every feature, given each one's parents."""
        ordered = tuple(tuple(int(p) for p in ps) for ps in parents)
        return cls(tuple(names), tuple(range(len(names))), ordered)

    @classmethod
    def from_tree(cls, names: Sequence[str], parents: Iterable[int]) -> Structure:
        """Build a structure in which each feature has one parent, or none if that is -1."""
        return cls.from_parents(names, [() if p < 0 else (p,) for p in parents])

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features kept."""
        return tuple(self.names[i] for i in self.selected)

    @property
    def families(self) -> list[tuple[int, tuple[int, ...]]]:
        """Each feature kept with its parents, as indices."""
        return list(zip(self.selected, self.parent_indices, strict=True))

    @property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """Each feature's ordered parents, by name."""
        named = (tuple(self.names[p] for p in parents) for parents in self.parent_indices)
        return MappingProxyType(dict(zip(self.features, named, strict=True)))

    def position(self, feature: str) -> int:
        """Return a feature's position among `features`."""
        if not isinstance(feature, str) or feature not in self._positions:
            raise ConfigurationError(
                f"{feature!r} is not in the network.{nearest(feature, self.features)} "
                f"Its features: {listed(self.features)}."
            )
        return self._positions[feature]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.features)}

    def parent_positions(self) -> tuple[tuple[int, ...], ...]:
        """Return each feature's parents as positions into `features`."""
        return tuple(tuple(self._places[p] for p in parents) for parents in self.parent_indices)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {feature: at for at, feature in enumerate(self.selected)}

    def summary(self) -> str:
        """Return a summary of its size: the number of features kept and of edges."""
        n_edges = sum(map(len, self.parent_indices))
        edges = "1 edge" if n_edges == 1 else f"{n_edges:,} edges"
        return f"{len(self.selected):,} of {len(self.names):,} features, {edges}"

    def __repr__(self) -> str:
        lines = [f"Structure: {self.summary()}"]
        for name, parents in list(self.parents.items())[:SHOWN_FEATURES]:
            above = f" <- {', '.join(map(visible, parents))}" if parents else ""
            lines.append(f"  {visible(name)}{above}")
        if len(self.selected) > SHOWN_FEATURES:
            lines.append(f"  ... {len(self.selected) - SHOWN_FEATURES:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from tanager.drawing import DrawnGraph, plan_drawing
        from tanager.drawing.svg import card

        graph = DrawnGraph(self.features, self.parent_positions())
        return card("structure.html.j2", structure=self, plan=plan_drawing(graph))

    @property
    def max_parents(self) -> int:
        """The largest number of parent features, not counting the class."""
        return max((len(ps) for ps in self.parent_indices), default=0)

    def topological_order(self) -> tuple[int, ...]:
        """Return positions into `selected`, parents before children; an error if cyclic.

        Sorted by generation (the length of the longest parent chain), then as in `selected`.
        """
        return self._order

    @cached_property
    def _order(self) -> tuple[int, ...]:
        sorter = TopologicalSorter(dict(enumerate(self.parent_positions())))
        try:
            sorter.prepare()
        except CycleError as error:
            cycle = ", ".join(repr(self.names[self.selected[at]]) for at in error.args[1][:-1])
            raise ConfigurationError(f"The structure has a cycle among {cycle}.") from None
        order: list[int] = []
        while sorter.is_active():
            order += sorted(ready := sorter.get_ready())
            sorter.done(*ready)
        return tuple(order)


def _holder(parents: tuple[int, ...], families: Mapping[int, tuple[int, ...]]) -> int | None:
    """Return the first of the parents that has all the others as parents."""
    wanted = set(parents)
    return next((p for p in parents if wanted <= {p, *families[p]}), None)


@dataclass(frozen=True)
class JointTables:
    """Tables learned together with a structure."""

    parent_indices: tuple[tuple[int, ...], ...]  # the parents in the structure of these tables
    log_prior: Floats  # (n_classes,)
    log_prob: tuple[Floats, ...]  # (*parent_arities, arity, n_classes); one per feature


@dataclass(frozen=True, eq=False)
class FitPlan:
    """The plan of a fit, passed by the estimator to the structure and parameter learners.

    Part of the work (the rows outside a fold) has its own plan, see `for_rows`; models fitted on
    those rows are fitted once and kept with it.

    Attributes
    ----------
    context : FitContext
        The engine, random streams, progress, and record of the fit.
    structure_learner : StructureLearner or None
        Relearns the structure when rows are held out; None if the structure is given.
    signs : mapping
        By feature, the classes that rise (1) or fall (-1) along it, shape (n_classes,).
    limits : Limits or None
        Expert constraints on the structure.
    prior : PriorCounts or None
        Expert knowledge about tables, for learners from counts.
    joint_tables : JointTables or None
        Tables that were learned together with the structure.
    rows : Rows or None
        The training rows, with the features' own codes.
    n_rows : int
        Of the whole table, which decides how deep folds look as well.
    groups : tuple of Groups or None
        Of each feature's values, when it is a parent; the counts given to a structure learner
        are of these groups. None: parents are used value by value.
    numbers : tuple of ndarray or None
        The numbers behind each feature's ordered codes, up to a factor; None if it isn't numeric.
    intervals : bool
        Whether learners from counts also estimate their uncertainty.
    """

    context: FitContext = field(default_factory=FitContext)
    structure_learner: StructureLearner | None = None
    signs: Mapping[int, NDArray[np.int8]] = field(default_factory=dict)
    limits: Limits | None = None
    prior: PriorCounts | None = None
    joint_tables: JointTables | None = None
    rows: Rows | None = None
    n_rows: int = 0
    groups: tuple[Groups, ...] | None = None
    numbers: tuple[Floats | None, ...] = ()
    intervals: bool = True

    def inner(self) -> FitPlan:
        """Return the plan of a nested part of the work, which has its own, silent context."""
        return replace(self, context=self.context.inner())

    def for_rows(self, counts: Counts) -> FitPlan:
        """Return the plan for some rows, with groups learned from their counts."""
        groups = tuple(map(learn_groups, counts.values, counts.domain.n_ordered))
        n_rows = max(self.n_rows, counts.rows.n_rows)
        return replace(self, rows=counts.rows, n_rows=n_rows, groups=groups)

    @cached_property
    def grouped_counts(self) -> Counts:
        """The grouped counts of the plan's rows."""
        assert self.rows is not None
        assert self.groups is not None
        return Counts(group_rows(self.rows, self.groups), self.context)

    @cached_property
    def residuals(self) -> Residuals:
        """Residuals of an additive model of the plan's rows, at the features' own values."""
        from tanager.loglinear.fits import find_residuals

        assert self.rows is not None
        return find_residuals(self.rows, self.context)


class StructureLearner(Estimator, ABC):
    """Learns which features condition which.

    A small scikit-learn-style object: `__init__` stores parameters; `learn` doesn't modify them.
    """

    @abstractmethod
    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn a structure.

        Parameters
        ----------
        counts : Counts
            Statistics of the training rows, gathered on demand; `counts.rows` are the rows.
        plan : FitPlan
            Settings of the fit. `plan.context` has the engine, randomness and progress; record
            diagnostics in ``plan.context.record("structure")``.
        """


class JointLearner(StructureLearner):
    """A structure learner that trains tables together with the structure."""

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the structure alone."""
        return self.learn_jointly(counts, plan)[0]

    @abstractmethod
    def learn_jointly(self, counts: Counts, plan: FitPlan) -> tuple[Structure, JointTables]:
        """Learn the structure and its tables, which its plan passes to the parameter learner."""
