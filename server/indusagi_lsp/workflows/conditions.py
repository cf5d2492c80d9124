"""The expressions of `when` and of `{{ }}`: a small language over results, read and evaluated here, never by Python.

    build.ok and not skip
    tests.output.failed == 0 or inputs.force
    (target in ["stage", "live"]) and count < 10

Names, `.name`, `[index]`; numbers, texts, lists, `true`, `false`, `null`; `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`,
`not in`; `not`, `and`, `or`, parentheses. They bind and mean what they do in Python, chains and truth of values
included. There are no calls, no arithmetic, no attributes of objects: an expression can read what it is given and
nothing else.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

MAX_LENGTH = 2_000
"""Characters of an expression."""

MAX_DEPTH = 50
"""How deep parentheses, lists and `not` may be nested."""

Names: TypeAlias = Mapping[str, Any]
_Evaluate: TypeAlias = Callable[[Names], Any]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>==|!=|<=|>=|[<>().,\[\]])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
KEYWORDS = frozenset({"and", "or", "not", "in", *_CONSTANTS})
"""What cannot be a name."""

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}


class ConditionError(ValueError):
    """The expression cannot be read, or makes no sense on these values."""


class Expression(msgspec.Struct, frozen=True):
    """An expression that was read.

    Attributes:
        text: as it was written.
        names: the names that it begins its paths with.
    """

    text: str
    names: frozenset[str]
    evaluate_in: _Evaluate

    def value(self, names: Names) -> Any:
        """Its value.

        Args:
            names: what the names mean; what is missing below a name is null.

        Raises:
            ConditionError: a name is not known, or two values cannot be compared.
        """
        try:
            return self.evaluate_in(names)
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ConditionError):
                raise
            message = f"`{self.text}` makes no sense here: {error}"
            raise ConditionError(message) from None

    def holds(self, names: Names) -> bool:
        """Whether its value counts as true; raises as `value` does."""
        return bool(self.value(names))


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ConditionError: with the place where it cannot be understood.
    """
    if len(text) > MAX_LENGTH:
        message = f"an expression has at most {MAX_LENGTH} characters"
        raise ConditionError(message)
    parser = _Parser(text)
    evaluate = parser.whole()
    return Expression(text, frozenset(parser.names), evaluate)


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    place: int


class _Parser:
    """Recursive descent, one method per level of binding."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._read(text))
        self._next = 0
        self._depth = 0
        self.names: set[str] = set()

    def whole(self) -> _Evaluate:
        result = self._or()
        if self._token.kind != "end":
            self._refuse(self._token)
        return result

    def _or(self) -> _Evaluate:
        terms = [self._and()]
        while self._take("or"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else lambda names: _first(terms, names, wanted=True)

    def _and(self) -> _Evaluate:
        terms = [self._not()]
        while self._take("and"):
            terms.append(self._not())
        return terms[0] if len(terms) == 1 else lambda names: _first(terms, names, wanted=False)

    def _not(self) -> _Evaluate:
        if not self._take("not"):
            return self._comparison()
        self._enter()
        inner = self._not()
        self._depth -= 1
        return lambda names: not inner(names)

    def _comparison(self) -> _Evaluate:
        first = self._atom()
        rest: list[tuple[Callable[[Any, Any], Any], _Evaluate]] = []
        while (name := self._comparator()) is not None:
            rest.append((_COMPARE[name], self._atom()))
        return (lambda names: _chain(first, rest, names)) if rest else first

    def _comparator(self) -> str | None:
        if self._token.text == "not" and self._tokens[self._next + 1].text == "in":
            self._next += 2
            return "not in"
        if self._token.kind in ("sign", "name") and self._token.text in _COMPARE:
            return self._advance().text
        return None

    def _atom(self) -> _Evaluate:
        token = self._advance()
        if token.kind == "number":
            number = float(token.text) if set(token.text) & set(".eE") else int(token.text)
            return lambda _: number
        if token.kind == "text":
            text = self._unescape(token)
            return lambda _: text
        if token.kind == "name":
            return self._name(token)
        if token.text == "(":
            self._enter()
            inner = self._or()
            self._close(")")
            return inner
        if token.text == "[":
            return self._list()
        self._refuse(token)
        raise AssertionError

    def _list(self) -> _Evaluate:
        self._enter()
        items: list[_Evaluate] = []
        while self._token.text != "]":
            items.append(self._or())
            if not self._take(","):
                break
        self._close("]")
        return lambda names: [item(names) for item in items]

    def _name(self, token: _Token) -> _Evaluate:
        if token.text in _CONSTANTS:
            constant = _CONSTANTS[token.text]
            return lambda _: constant
        if token.text in KEYWORDS:
            self._refuse(token)
        self.names.add(token.text)
        path: list[str | int] = []
        while True:
            if self._take("."):
                part = self._advance()
                if part.kind != "name":
                    self._refuse(part)
                path.append(part.text)
            elif self._take("["):
                part = self._advance()
                if part.kind == "text":
                    path.append(self._unescape(part))
                elif part.kind == "number" and part.text.isdigit():
                    path.append(int(part.text))
                else:
                    self._refuse(part)
                if not self._take("]"):
                    self._refuse(self._token)
            else:
                return lambda names: _follow(names, token.text, path)

    # --- tokens -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _read(text: str) -> Iterator[_Token]:
        place = 0
        while True:
            found = _TOKEN.match(text, place)
            if found is None or found.lastgroup is None:
                rest = text[place:].strip()
                message = f"`{text}` cannot be understood from `{rest[:20]}` on"
                raise ConditionError(message)
            yield _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
            if found.lastgroup == "end":
                return
            place = found.end()

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    def _take(self, text: str) -> bool:
        if self._token.kind not in ("sign", "name") or self._token.text != text:
            return False
        self._next += 1
        return True

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"an expression is nested at most {MAX_DEPTH} deep"
            raise ConditionError(message)

    def _close(self, sign: str) -> None:
        if not self._take(sign):
            self._refuse(self._token)
        self._depth -= 1

    def _refuse(self, token: _Token) -> None:
        what = f"`{token.text}` at character {token.place + 1}" if token.kind != "end" else "its end"
        message = f"`{self._text}` cannot be understood at {what}"
        raise ConditionError(message)

    def _unescape(self, token: _Token) -> str:
        def one(found: re.Match[str]) -> str:
            if found[1] not in _ESCAPES:
                self._refuse(token)
            return _ESCAPES[found[1]]

        return _ESCAPE.sub(one, token.text[1:-1])


def _first(terms: Sequence[_Evaluate], names: Names, *, wanted: bool) -> Any:
    """The first value whose truth is `wanted`, else the last: what `or` and `and` give."""
    value: Any = None
    for term in terms:
        value = term(names)
        if bool(value) is wanted:
            return value
    return value


def _chain(first: _Evaluate, rest: Sequence[tuple[Callable[[Any, Any], Any], _Evaluate]], names: Names) -> Any:
    """`a < b < c` as Python has it: each value once, and no further than the first that does not hold."""
    left = first(names)
    holds: Any = True
    for compare, term in rest:
        right = term(names)
        holds = compare(left, right)
        if not holds:
            return holds
        left = right
    return holds


def _follow(names: Names, name: str, path: Sequence[str | int]) -> Any:
    if name not in names:
        message = f"`{name}` is not known"
        raise ConditionError(message)
    value = names[name]
    for part in path:
        if isinstance(value, Mapping) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value
