"""Manual changes to a network after it was learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tanager.errors import ConfigurationError

ACTIONS = ("effect", "smooth", "neutralise", "forbid", "table", "add edge", "remove edge")


@dataclass(frozen=True)
class Edit:
    """One manual change; a network lists them in `history` and stores them in its file.

    Attributes
    ----------
    feature : str
    action : {'effect', 'smooth', 'neutralise', 'forbid', 'table', 'add edge', 'remove edge'}
    details : mapping
        The request, as plain data.
    reason, author : str
        Why, and by whom.
    when : str
        Date and time, ISO 8601.
    """

    feature: str
    action: str
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reason: str = ""
    author: str = ""
    when: str = ""

    def __post_init__(self) -> None:
        for name in ("reason", "author", "when"):
            if not isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}. Allowed: a text.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a model file."""
        return {**asdict(self), "details": dict(self.details)}

    def __str__(self) -> str:
        words = {
            "effect": f"{self.feature}: effect set by hand",
            "smooth": f"{self.feature}: effect smoothed",
            "neutralise": f"{self.feature}: effect neutralised",
            "forbid": f"{self.feature}: taken out of the network",
            "table": f"{self.feature}: table set by hand",
            "add edge": f"{self.feature}: parent {self.details.get('parent')} added",
            "remove edge": f"{self.feature}: parent {self.details.get('parent')} removed",
        }
        who = f" by {self.author}" if self.author else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.when[:10]}{who} {words[self.action]}{why}".strip()
