"""Which question to ask next: the exact value of information.

A question is worth the reduction in the expected cost of the best action once the answer is known,
or in the entropy of the class without costs. Both are sums over the answers of a function of
P(answer, class | what is known), which one propagation returns for all features. An adaptive plan
chooses each question based on the answers so far: a tree, found by recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from math import comb, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.errors import ConfigurationError, check_cells, listed
from tanager.network.answers import align_columns
from tanager.network.decisions import Costs, is_number, read_costs
from tanager.network.evidence import check_count, find_feature, one_row, read_names
from tanager.network.propagation import Propagation
from tanager.network.queries import refuse_impossible
from tanager.numerics import Floats

if TYPE_CHECKING:
    from tanager.network.network import Network

MOST_CELLS = 1 << 24  # combinations of answers to several questions, including classes
MOST_SETS = 100_000  # most sets of questions compared by an exact plan
MOST_STEPS = 20_000  # most combinations of answers examined by an adaptive plan
NOTHING = 1e-12  # relative to the current cost or entropy: less is rounding


@dataclass(frozen=True)
class Question:
    """A feature to ask about, and what the answer is worth.

    Attributes
    ----------
    feature : str
    gain : float
        Expected reduction in the cost, or in the entropy of the class in bits.
    price : float
    """

    feature: str
    gain: float
    price: float

    @property
    def net(self) -> float:
        """The gain minus the price, for costs."""
        return self.gain - self.price


@dataclass(frozen=True)
class PlanStep:
    """What to do at one point of an adaptive plan: ask a question, or stop and act.

    Attributes
    ----------
    question : str or None
        The question to ask here, or None to stop.
    action : object
        The best action given what is known here; None without costs.
    left : float
        Expected cost from here on, with prices; without costs, the class's final entropy in bits.
    price : float
        Expected price of the questions from here on.
    answers : dict of str to tuple of float and PlanStep
        The probability of each possible answer, and how the plan continues after it.
    """

    question: str | None
    action: Any
    left: float
    price: float = 0.0
    answers: dict[str, tuple[float, PlanStep]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the plan as text; answers after which it continues the same way share a line."""
        if self.question is None:
            return ["stop" if self.action is None else str(self.action)]
        alike: dict[tuple[str, ...], list[tuple[str, float]]] = {}
        for answer, (chance, step) in self.answers.items():
            alike.setdefault(tuple(step.lines()), []).append((answer, chance))
        out = [f"ask {self.question}"]
        for (first, *more), some in alike.items():
            names = listed([answer for answer, _ in some], 4)
            out.append(f"  {names} ({sum(chance for _, chance in some):.2f}): {first}")
            out += [f"  {line}" for line in more]
        return out


@dataclass(frozen=True)
class Questions:
    """The questions that can be asked, ranked, and a plan of which to ask.

    Attributes
    ----------
    unit : {"cost", "bits"}
        The unit of `now` and of the gains.
    now : float
        Expected cost of the best action, or entropy of the class, before any question.
    action : object
        The best action before any question; None without costs.
    questions : tuple of Question
        Those within the budget, by gain (minus price with costs); ties go to the cheaper, then to
        the earlier column.
    plan : tuple of str
        The questions to ask together (the first of an adaptive plan); empty if none is worth it.
    gain, price : float
        Of the entire plan; expected values if it's adaptive.
    exact : bool
        Whether no plan with as many questions is worth more.
    tree : PlanStep or None
        The adaptive plan, if requested.
    """

    unit: str
    now: float
    action: Any
    questions: tuple[Question, ...]
    plan: tuple[str, ...] = ()
    gain: float = 0.0
    price: float = 0.0
    exact: bool = True
    tree: PlanStep | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        found = asdict(self)
        return {**found, "questions": list(found["questions"]), "plan": list(self.plan)}

    def to_pandas(self) -> Any:
        """Return a DataFrame, one row per question; needs pandas."""
        import pandas as pd

        rows = [[q.gain, q.price, q.net] for q in self.questions]
        index = pd.Index([q.feature for q in self.questions], name="question")
        return pd.DataFrame(rows, index=index, columns=["gain", "price", "net"])

    def __str__(self) -> str:
        cost = self.unit == "cost"
        head = f"{self.action} costs {self.now:.4f} now" if cost else f"{self.now:.4f} bits now"
        rows = [["question", "saves" if cost else "bits", "price", "net"]]
        for q in self.questions[:10]:
            rows.append([q.feature, f"{q.gain:.4f}", f"{q.price:.4f}", f"{q.net:.4f}"])
        rows = rows if cost else [row[:-1] for row in rows]
        shown = align_columns(rows, 1) if self.questions else []
        return "\n".join([head, *shown, self.advice()])

    __repr__ = __str__

    def advice(self) -> str:
        """Return the plan in words."""
        if not self.questions:
            return "There's nothing to ask: everything is known, or beyond the budget."
        if not self.plan:
            return "Nothing is worth asking" + (f": {self.action}." if self.unit == "cost" else ".")
        if self.tree is not None:
            worth = f"An adaptive plan, worth {self.gain:.4f} for {self.price:.4f}:"
            return "\n".join([worth, *self.tree.lines()])
        together = f", together {self.gain:.4f} for {self.price:.4f}" if len(self.plan) > 1 else ""
        return f"Ask: {', '.join(self.plan)}{together}"


def find_questions(
    model: Any,
    row: Any,
    costs: Any = None,
    *,
    prices: Mapping[str, float] | float = 0.0,
    budget: float | None = None,
    among: Sequence[str] | None = None,
    n: int = 1,
    method: str = "greedy",
    adaptive: bool = False,
) -> Questions:
    r"""Return which unknown feature to ask about or measure next, and what it's worth.

    Parameters
    ----------
    row : mapping, Series or one-row table
        What is known, as evidence for `Network.query`. Other features are unknown, and can be
        asked about.
    costs : optional
        As for `decide`: a question is worth what it saves, or, without costs, its information about
        the class in bits.
    prices : mapping or float, default=0
        The cost of each question, in the unit of `costs`; features that aren't listed are free.
    budget : float, optional
        The largest total price of the questions in the plan.
    among : sequence of str, optional
        The features that can be asked about; by default, all that are unknown.
    n : int, default=1
        The largest number of questions in the plan.
    method : {"greedy", "exact"}, default="greedy"
        Greedy adds the most valuable question to those already chosen, and misses questions that
        are only valuable in combination; exact compares all plans of up to `n`.
    adaptive : bool, default=False
        Whether each question may depend on the answers so far: the plan is then a tree. By
        default, all questions are asked before you decide.

    Returns
    -------
    Questions
        All affordable questions, best first, and the `plan` or its `tree`.

    Notes
    -----
    Given what is known, :math:`e`, a question about :math:`x` saves

    .. math:: \min_a E[c_a \mid e] - \sum_x P(x \mid e) \min_a E[c_a \mid e, x]

    in expectation, which is never negative, and zero if no answer changes the decision.
    All probabilities are exact.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, ["wet", "wet", "dry", "dry"] * 5)
    >>> clf.next_question({}, {"umbrella": 1, "none": {"wet": 4, "dry": 0}}, prices=0.1)
    umbrella costs 1.0000 now
    question   saves   price      net
    x0        0.3333  0.1000   0.2333
    x1        0.0780  0.1000  -0.0220
    Ask: x0
    """
    network: Network = model._asked()
    names, table = network.structure.names, None if costs is None else read_costs(network, costs)
    if method not in ("greedy", "exact"):
        raise ConfigurationError(f"method={method!r}. Allowed: 'greedy', 'exact'.")
    check_count("n", n, 1)
    price, wanted = read_prices(network, prices), None
    if among is not None:
        wanted = {find_feature(names, name, "among") for name in read_names(among, "among")}
    most = inf if budget is None else _number(budget, "budget")
    known = one_row(network, row)
    asked = _Asked(network, (known.fixed(network), *known.logs), table, price, most, wanted)
    every = [Question(names[f], asked.alone[f], price[f]) for f in asked.open]
    ranked = sorted(every, key=lambda q: (-(q.net if table else q.gain), q.price))
    head = "bits" if table is None else "cost", asked.now, asked.action, tuple(ranked)
    exact = method == "exact" or n == 1
    if adaptive:
        asked.check_tree(n, exact=exact)
        tree = asked.best_step(n, exact=exact)
        gain = asked.now - tree.left + (tree.price if table else 0.0)
        first = () if tree.question is None else (tree.question,)
        return Questions(*head, first, gain, tree.price, exact, tree)

    best, gain, spent = tuple[int, ...](), 0.0, 0.0
    # In case of ties, the cheapest plan is kept, then the first; small ones come first.
    for some, its_gain in asked.all_sets(n) if method == "exact" else asked.greedy(n):
        total = sum(price[f] for f in some)
        ahead = its_gain - gain - (total - spent if table else 0.0)
        if ahead > asked.nothing or (abs(ahead) <= asked.nothing < spent - total):
            best, gain, spent = some, its_gain, total
    return Questions(*head, tuple(names[f] for f in best), gain, spent, exact)


class _Asked:
    """A row with partial knowledge, and the questions that fit into the budget."""

    def __init__(
        self,
        network: Network,
        evidence: tuple[dict[int, int], dict[int, Floats], Floats],
        costs: Costs | None,
        price: list[float],
        most: float,
        wanted: set[int] | None,
    ) -> None:
        self.network, self.costs, self.price, self.most = network, costs, price, most
        self.evidence, self.wanted = evidence, wanted
        arities = network.codebook.domain.arities
        unknown = sorted({*network.structure.selected} - evidence[0].keys())
        asked = [f for f in unknown if arities[f] > 1 and (wanted is None or f in wanted)]
        self.open = [f for f in asked if price[f] <= most + NOTHING]
        self.first = Propagation(network, *evidence)
        refuse_impossible(np.array([self.first.log_evidence]))
        now = self.first.of_kept[None]
        self.now, self.action = self._left(now), None
        self.nothing, self.knowing = NOTHING * max(self.now, 1.0), 0.0
        if costs is not None:
            self.action = costs.actions[int(costs.best(costs.expected(now))[0])]
            self.nothing = NOTHING * float(np.abs(costs.matrix).max())
            self.knowing = float((now[0] * costs.matrix.min(axis=0)).sum())
        self.alone = self.gains((), self.open)

    def greedy(self, n: int) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield growing sets of questions: by what each adds, and by what it adds per price."""
        price = self.price
        for per_price in (False, True) if any(price) and n > 1 else (False,):
            some, before, left, adds = tuple[int, ...](), 0.0, self.most, self.alone
            while len(some) < n:
                fit = [f for f in self.open if f not in some and price[f] <= left + NOTHING]
                if some and fit:
                    adds = self.gains(some, fit)
                worth = {f: adds[f] - before for f in fit}
                if per_price:
                    worth = {f: gain / max(price[f], NOTHING) for f, gain in worth.items()}
                elif self.costs:
                    worth = {f: gain - price[f] for f, gain in worth.items()}
                best = max(fit, key=worth.__getitem__, default=None)
                if best is None or adds[best] - before <= self.nothing:
                    break
                some, before, left = (*some, best), adds[best], left - price[best]
                yield some, before

    def all_sets(self, n: int) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield all sets of up to n questions within the budget, small ones first."""
        if sum(comb(len(self.open), size) for size in range(1, n + 1)) > MOST_SETS:
            raise ConfigurationError(
                f"method='exact' would compare all sets of up to {n} of {len(self.open)} "
                f"questions, more than {MOST_SETS:,}. Name fewer with among=, lower n, or use "
                "method='greedy'."
            )
        yield from (((f,), gain) for f, gain in self.alone.items())
        for some in (some for size in range(1, n) for some in combinations(self.open, size)):
            spent = sum(self.price[f] for f in some)
            if self.costs and spent >= self.now - self.knowing:
                continue  # no set is worth more than knowing the class
            left = self.most - spent
            last = [f for f in self.open if f > some[-1] and self.price[f] <= left + NOTHING]
            if last:
                found = self.gains(some, last)
                yield from (((*some, f), found[f]) for f in last)

    def check_tree(self, n: int, *, exact: bool) -> None:
        """Raise if an adaptive plan has too many combinations of questions and answers."""
        sizes = [int(self.network.codebook.domain.arities[f]) for f in self.open]
        later = max(min(n, len(sizes)) - 1, 0)
        if (sum(sizes) if exact else max(sizes, default=0)) ** later > MOST_STEPS:
            raise ConfigurationError(
                f"An adaptive plan of {n} of {len(self.open)} questions goes through more than "
                f"{MOST_STEPS:,} combinations of answers. Name fewer with among=, lower n"
                + (", or use method='greedy'." if exact else ".")
            )

    def best_step(self, n: int, *, exact: bool) -> PlanStep:
        """Return the best adaptive plan of up to n questions: of all, or one question at a time."""
        best = PlanStep(None, self.action, self.now)
        worth = {f: self.alone[f] - (self.price[f] if self.costs else 0.0) for f in self.open}
        asked = sorted(self.open, key=lambda f: (-worth[f], self.price[f]))
        if n == 1 or not exact:
            asked = [f for f in asked[:1] if worth[f] > self.nothing]
        for feature in asked:
            if self.costs and self.price[feature] >= best.left - self.knowing:
                continue  # no question is worth more than knowing the class
            step = self._step(feature, n, exact=exact)
            ahead = best.left - step.left
            if ahead > self.nothing or (ahead >= -self.nothing and step.price < best.price):
                best = step
        return best

    def _step(self, feature: int, n: int, *, exact: bool) -> PlanStep:
        """Return the plan that starts with a given question."""
        price, fixed = self.price[feature], self.evidence[0]
        chances = self.first.values((feature,), self.first.joints[feature]).sum(axis=1)
        labels, answers = self.network.codebook.columns[feature].labels(), {}
        left, spent = (price if self.costs else 0.0), price
        for code in np.flatnonzero(chances > NOTHING).tolist():
            evidence = {**fixed, feature: code}, *self.evidence[1:]
            rest = self.costs, self.price, self.most - price, self.wanted if n > 1 else set()
            step = _Asked(self.network, evidence, *rest).best_step(n - 1, exact=exact)
            chance = float(chances[code])
            answers[labels[code]] = chance, step
            left, spent = left + chance * step.left, spent + chance * step.price
        return PlanStep(self.network.structure.names[feature], self.action, left, spent, answers)

    def gains(self, some: tuple[int, ...], features: Iterable[int]) -> dict[int, float]:
        """Return the gain from some questions and one more, for each of the latter."""
        arities = self.network.codebook.domain.arities
        found = Propagation(self.network, *self.evidence, some) if some else self.first
        out = {}
        for feature in features:
            asked = (feature, *some)
            n_cells = prod(int(arities[f]) for f in asked) * len(self.network.log_prior)
            names = listed(self.network.structure.names[f] for f in asked)
            remedy = "Lower n, or name other questions with among=."
            check_cells(f"Comparing the answers to {names} takes", n_cells, MOST_CELLS, remedy)
            gain = self.now - self._left(found.values(asked, found.joints[feature]))
            out[feature] = gain if gain > self.nothing else 0.0
        return out

    def _left(self, joint: Floats) -> float:
        """Return the expected cost, or the entropy in bits, from P(answer, class)."""
        if self.costs is not None:
            return float(self.costs.expected(joint).min(axis=1).sum())
        total = joint.sum(axis=1, keepdims=True)
        share = np.divide(joint, total, out=np.ones_like(joint), where=joint > 0)
        return float(-(joint * np.log2(share)).sum())


def read_prices(network: Network, prices: Mapping[str, float] | float) -> list[float]:
    """Return the price of each feature."""
    names = network.codebook.domain.names
    if not isinstance(prices, Mapping):
        return [_number(prices, "prices")] * len(names)
    out = [0.0] * len(names)
    for name, price in prices.items():
        out[find_feature(names, name, "prices")] = _number(price, f"prices[{name!r}]")
    return out


def _number(value: Any, what: str) -> float:
    if not is_number(value) or value < 0:
        raise ConfigurationError(f"{what}={value!r}. Allowed: a finite number of at least 0.")
    return float(value)
