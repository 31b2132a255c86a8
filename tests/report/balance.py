"""Whether every element of a page is closed."""

from __future__ import annotations

from html.parser import HTMLParser


class Balance(HTMLParser):
    """Checks that every element is closed where it should be."""

    void = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
