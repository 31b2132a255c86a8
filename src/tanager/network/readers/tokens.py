"""Words and signs of a text, each with its line and column."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from tanager.network.readers.draft import Place, Word, fail

__all__ = ["Token", "Tokens"]


class Token(NamedTuple):
    """A word (quotes removed), a sign such as ``{``, or the end of the file (empty text)."""

    text: str
    start: int
    is_word: bool


class Tokens:
    r"""A reader over a text.

    Parameters
    ----------
    text : str
    signs : str
        Characters that stand alone.
    comments : str
        A regular expression of what is passed over.

    Examples
    --------
    >>> tokens = Tokens('node "a b" { }', "{}", "%[^\n]*")
    >>> [tokens.next().text for _ in range(4)]
    ['node', 'a b', '{', '}']
    """

    def __init__(self, text: str, signs: str, comments: str) -> None:
        self._text = text
        end = re.escape(signs)
        self._pattern = re.compile(
            rf'(?:\s+|{comments})*+(?:(?P<sign>[{end}])|"(?P<quoted>(?:[^"\\]|\\.)*+)"'
            rf'|(?P<word>[^\s"{end}]++)|(?P<bad>"))?',
            re.DOTALL,
        )
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._at = 0
        self._ahead: Token | None = None

    def peek(self) -> Token:
        """Return the next token, and stay before it."""
        if self._ahead is None:
            self._ahead = self._read()
        return self._ahead

    def next(self) -> Token:
        """Return the next token."""
        token = self.peek()
        self._ahead = None
        return token

    def _read(self) -> Token:
        found = self._pattern.match(self._text, self._at)
        assert found is not None  # all of the pattern is optional
        self._at = found.end()
        kind = found.lastgroup
        if kind is None:
            return Token("", self._at, is_word=False)
        start = found.start(kind)
        if kind == "bad":
            fail(self.place(start), "a quotation mark is never closed")
        text = found[kind]
        if kind == "quoted":
            return Token(re.sub(r"(?s)\\(.)", r"\1", text), start - 1, is_word=True)
        return Token(text, start, is_word=kind == "word")

    def place(self, start: int) -> Place:
        """Return the line and column of an offset."""
        line = bisect_right(self._lines, start)
        return Place(line, start - self._lines[line - 1] + 1)

    def located(self, token: Token) -> Word:
        """Return a token with its line and column."""
        return Word(token.text, self.place(token.start))

    def expect(self, sign: str) -> Token:
        """Return the next token, which must be a given sign or keyword."""
        token = self.next()
        if token.text != sign:
            self.refuse(token, repr(sign))
        return token

    def accept(self, sign: str) -> bool:
        """Pass over the next token if it is a given sign or keyword."""
        if self.peek().text == sign:
            self.next()
            return True
        return False

    def word(self, what: str) -> Word:
        """Return the next token, which must be a word; `what` it is."""
        token = self.next()
        if not token.is_word:
            self.refuse(token, what)
        return self.located(token)

    def words_until(self, *ends: str, between: str = "") -> list[Token]:
        """Return the words up to a sign, which is read too; `between` them may be other signs."""
        found = []
        while True:
            token = self.next()
            if token.is_word:
                found.append(token)
            elif token.text in ends and token.text:
                return found
            elif not token.text or token.text not in between:
                self.refuse(token, f"a word or {' or '.join(map(repr, ends))}")

    def refuse(self, token: Token, wanted: str) -> None:
        """Refuse the file: something else is expected here."""
        found = repr(token.text[:40]) if token.text else "the end of the file"
        fail(self.place(token.start), f"{wanted} is expected here, not {found}")
