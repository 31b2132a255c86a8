"""The fixtures that the papers' tests share with those of the package."""

from tests.conftest import shared
from tests.evaluation.conftest import other, small

__all__ = ["other", "shared", "small"]
