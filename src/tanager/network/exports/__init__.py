"""Export networks to other programs, one module per format."""

from functools import cache
from typing import Any

from tanager.escaping import template_environment


@cache
def template(name: str) -> Any:
    """Return the template of a program or statement, in which nothing is escaped."""
    return template_environment("tanager.network.exports", markup=False).get_template(name)
