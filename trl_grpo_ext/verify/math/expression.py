"""Read the LaTeX of one value as a tree. Strict: what can be read in two ways, or not surely, is not read at all."""

import re
from fractions import Fraction
from functools import lru_cache

from trl_grpo_ext.verify.math.exact import MAX_DIGITS, NOISY_DIGITS


Node = tuple  # (operation, *operands); operands are nodes, save the value of "number" and the name of "symbol"

MAX_TOKENS = 400  # answers that people publish have fewer than 100

_TOKEN = re.compile(
    r"\s*(\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+|\\[a-zA-Z]+|\\[{}|]|[A-Za-z]|[-+*/^_()\[\]{}|!%,='])"
)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_SPELLED_FUNCTIONS = ("sin", "cos", "tan", "log", "ln", "exp", "sqrt", "gcd", "lcm", "max", "min", "mod", "arc", "deg")
_SPELLED = re.compile("|".join(_SPELLED_FUNCTIONS), re.IGNORECASE)
_LONGEST_PRODUCT = 3  # a longer run of letters is a word
_FUNCTION_LETTERS = frozenset("fghFGHPQRT")  # before a bracket these are as likely functions as factors
_ALWAYS_FUNCTIONS = frozenset("fghFGH")
_COUNTING_I = re.compile(r"\\(?:sum|prod)_\{i=")
_ONE_LETTER = re.compile(r"\\text\s*\{\s*([A-Za-z])\s*\}")
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho sigma tau phi varphi",
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell",
)
_GREEK = frozenset("\\" + name for name in " ".join(_GREEK_NAMES).split())
_FUNCTIONS = {
    r"\sin": "sin",
    r"\cos": "cos",
    r"\tan": "tan",
    r"\cot": "cot",
    r"\sec": "sec",
    r"\csc": "csc",
    r"\arcsin": "asin",
    r"\arccos": "acos",
    r"\arctan": "atan",
    r"\sinh": "sinh",
    r"\cosh": "cosh",
    r"\tanh": "tanh",
    r"\ln": "ln",
    r"\exp": "exp",
}
_INVERSE = {"sin": "asin", "cos": "acos", "tan": "atan"}
_OF_SEVERAL = {r"\max": "max", r"\min": "min", r"\gcd": "gcd", r"\lcm": "lcm"}
_ARROWS = (r"\vec", r"\overrightarrow")
_TIMES = ("*", r"\cdot", r"\times", r"\ast")
_OVER = ("/", r"\div")
_BRACKETS = {"(": ")", "[": "]", "{": "}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil", r"\lvert": r"\rvert"}
_BRACKET_MEANING = {r"\lfloor": "floor", r"\lceil": "ceil", r"\lvert": "abs"}


class Unreadable(ValueError):
    """The text is not surely one value."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Node | None:
    """
    Read a normalised value.

    Args:
        text (`str`):
            The value, normalised, without unit.

    Returns:
        `tuple` or `None`: The tree, or `None` for what is no expression, or one that can be read in two ways.
    """
    try:
        return _Parser(_tokens(text)).whole()
    except Unreadable:
        return None


def parse_vector(text: str) -> Node | None:
    """Read a combination of the unit vectors i, j and k, which are variables here."""
    try:
        parser = _Parser(_tokens(text))
        parser.i_counts = True
        return parser.whole()
    except Unreadable:
        return None


def symbols(node: Node) -> frozenset[str]:
    """The names of the variables in a tree."""
    return _symbols(node)


def operations(node: Node) -> frozenset[str]:
    """The operations that occur in a tree."""
    return _operations(node)


@lru_cache(maxsize=1024)
def _symbols(node: Node) -> frozenset[str]:
    if node[0] == "symbol":
        return frozenset((node[1],))
    bound = frozenset((node[1][1],)) if node[0] in ("sum", "product") else frozenset()
    return frozenset().union(*(_symbols(part) for part in node[1:] if isinstance(part, tuple))) - bound


@lru_cache(maxsize=1024)
def _operations(node: Node) -> frozenset[str]:
    return frozenset((node[0],)).union(*(_operations(part) for part in node[1:] if isinstance(part, tuple)))


def _name(token: str) -> str:
    if not token.isalnum():
        raise Unreadable("an index that is no name")
    return token


def _tokens(text: str) -> list[str]:
    text = _ONE_LETTER.sub(r" \1 ", text)
    for word in _WORD.findall(text):
        if len(word) > _LONGEST_PRODUCT or _SPELLED.search(word):
            raise Unreadable(text)
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match or len(tokens) >= MAX_TOKENS:
            raise Unreadable(text)
        tokens.append({r"\vert": "|", r"\mid": "|"}.get(match.group(1), match.group(1)))
        at = match.end()
    return tokens


class _Parser:
    """Recursive descent; the caller bounds the nesting of brackets, and with it the recursion."""

    def __init__(self, tokens: list[str]):
        self.tokens = [*tokens, ""]
        self.at = 0
        self.in_bars = False
        self.i_counts = _COUNTING_I.search("".join(tokens)) is not None

    def whole(self) -> Node:
        node = self.sum()
        self.expect("")
        return node

    @property
    def next(self) -> str:
        return self.tokens[self.at]

    def take(self) -> str:
        token = self.tokens[self.at]
        if not token:
            raise Unreadable("the text ends too early")
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.next != token:
            raise Unreadable(f"{token!r} is missing")
        self.at += 1

    def sum(self) -> Node:
        node = self.term()
        while self.next in ("+", "-"):
            sign = self.take()
            node = ("add" if sign == "+" else "subtract", node, self.term())
        return node

    def term(self) -> Node:
        negative = False
        while self.next in ("+", "-"):
            negative ^= self.take() == "-"
        node, divided = self.factor(), False
        while True:
            if self.next in _TIMES:
                self.take()
                node, divided = ("multiply", node, self.signed_factor()), False
            elif self.next in _OVER:
                self.take()
                node, divided = ("divide", node, self.signed_factor()), True
            elif self.starts_factor():
                if divided:
                    raise Unreadable("a/bc")
                node = ("multiply", node, self.factor())
            else:
                return ("negate", node) if negative else node

    def signed_factor(self) -> Node:
        negative = False
        while self.next in ("+", "-"):
            negative ^= self.take() == "-"
        node = self.factor()
        return ("negate", node) if negative else node

    def starts_factor(self) -> bool:
        token = self.next
        if token == "|":
            return not self.in_bars
        if token[:1].isdigit() or token[:1] == ".":
            if self.tokens[self.at - 1] not in ("!", ")"):
                raise Unreadable("a number after a factor")
            return True
        return bool(token) and (token.isalpha() or token in _BRACKETS or (token[0] == "\\" and self.opens(token)))

    def opens(self, token: str) -> bool:
        return (
            token in _GREEK
            or token in _FUNCTIONS
            or token in _OF_SEVERAL
            or token in _ARROWS
            or token in (r"\pi", r"\frac", r"\sqrt", r"\binom", r"\log")
        )

    def factor(self) -> Node:
        node = self.atom()
        raised = False
        while True:
            if self.next == "!":
                self.take()
                if self.next == "!":
                    raise Unreadable("a double factorial, or twice a factorial")
                node = ("factorial", node)
            elif self.next == "%":
                self.take()
                node = ("divide", node, ("number", Fraction(100)))
            elif self.next == "^":
                if raised:
                    raise Unreadable("x^a^b")
                self.take()
                raised = True
                if self.degree_sign():
                    node = ("multiply", node, ("divide", ("pi",), ("number", Fraction(180))))
                else:
                    node = _power(node, self.argument())
            else:
                return node

    def degree_sign(self) -> bool:
        for spelling in ([r"\circ"], ["{", r"\circ", "}"]):
            if self.tokens[self.at : self.at + len(spelling)] == spelling:
                self.at += len(spelling)
                return True
        return False

    def argument(self) -> Node:
        """The argument of a command: a group, or one sign."""
        if self.next == "{":
            return self.bracketed()
        if self.next == "-" and self.tokens[self.at + 1][:1].isdigit():
            self.take()
            return ("negate", self.atom())
        return self.atom()

    def bracketed(self) -> Node:
        opening = self.take()
        outer, self.in_bars = self.in_bars, False
        node = self.sum()
        self.in_bars = outer
        self.expect(_BRACKETS[opening])
        meaning = _BRACKET_MEANING.get(opening)
        return (meaning, node) if meaning else node

    def atom(self) -> Node:
        token = self.next
        if token in _BRACKETS:
            return self.bracketed()
        self.take()
        if token[0].isdigit() or token[0] == ".":
            return self.number(token)
        if token == "|":
            outer, self.in_bars = self.in_bars, True
            node = self.sum()
            self.in_bars = outer
            self.expect("|")
            return ("abs", node)
        if token.isalpha() or token in _GREEK:
            return self.symbol(token)
        if token == r"\pi":
            if self.next == "_":
                raise Unreadable("an indexed pi")
            return ("pi",)
        if token == r"\frac":
            return ("divide", self.argument(), self.argument())
        if token == r"\binom":
            return ("binomial", self.argument(), self.argument())
        if token == r"\sqrt":
            index: Node = ("number", Fraction(2))
            if self.next == "[":
                index = self.bracketed()
            return ("root", self.argument(), index)
        if token in _FUNCTIONS:
            return self.function(_FUNCTIONS[token])
        if token == r"\log":
            if self.next != "_":
                return self.function("ln")
            self.take()
            base = self.argument()
            return ("divide", ("ln", self.function_argument()), ("ln", base))
        if token in _OF_SEVERAL:
            return self.of_several(_OF_SEVERAL[token])
        if token in _ARROWS:
            return ("symbol", "vec " + self.name_in_braces())
        if token in (r"\sum", r"\prod"):
            return self.series({r"\sum": "sum", r"\prod": "product"}[token])
        raise Unreadable(token)

    def number(self, token: str) -> Node:
        if len(token) > MAX_DIGITS:
            raise Unreadable("a number that long")
        value = Fraction(token.replace(",", ""))
        if self.next == "_":
            raise Unreadable("a number in a base")
        if self.next == r"\frac" and token.isdigit():
            at = self.at
            self.take()
            above, below = self.argument(), self.argument()
            if above[0] == below[0] == "number":
                if not above[1] < below[1]:
                    raise Unreadable("a whole number before an improper fraction")
                return ("number", value + above[1] / below[1])
            self.at = at
        return ("noisy" if _noisy(token) else "number", value)

    def symbol(self, token: str) -> Node:
        name = token
        while self.next == "'":
            name += self.take()
        if self.next == "_":
            self.take()
            return self.indexed(name)
        if name == "e":
            return ("e",)
        if name == "i" and not self.i_counts:
            return ("i",)
        if self.next == "(" and token in _FUNCTION_LETTERS:
            if token not in _ALWAYS_FUNCTIONS and "'" not in name:
                raise Unreadable("a function, or a factor before a bracket")
            return ("apply", name, *self.arguments())
        return ("symbol", name)

    def indexed(self, name: str) -> Node:
        """`x_1` and `x_A` are names; the members `a_n` and `a_{n-1}` of a sequence depend on their index."""
        if self.next != "{":
            index = self.take()
            return (
                ("apply", f"{name}_", ("symbol", index)) if index.islower() else ("symbol", f"{name}_{_name(index)}")
            )
        start = self.at
        while self.next not in ("}", ""):
            self.take()
        inside = self.tokens[start + 1 : self.at]
        self.expect("}")
        word = "".join(inside)
        if word.isalnum() and not (len(word) == 1 and word.islower()):
            return ("symbol", f"{name}_{word}")
        inner = _Parser(inside)
        inner.i_counts = True
        return ("apply", f"{name}_", inner.whole())

    def name_in_braces(self) -> str:
        if self.next != "{":
            name = self.take()
        else:
            self.take()
            name = ""
            while self.next != "}":
                name += self.take()
            self.take()
        if not name.isalnum():
            raise Unreadable("an index that is computed")
        return name

    def function(self, name: str) -> Node:
        power = None
        if self.next == "^":
            self.take()
            if self.degree_sign():
                raise Unreadable("a degree sign on a function")
            power = self.argument()
            if power == ("negate", ("number", Fraction(1))):
                if name not in _INVERSE:
                    raise Unreadable("the inverse of a function")
                name, power = _INVERSE[name], None
        node: Node = (name, self.function_argument())
        return node if power is None else _power(node, power)

    def function_argument(self) -> Node:
        """A bracket, or the factors up to the next function or operator, as in \\sin 2x \\cos x."""
        if self.next in _BRACKETS or self.next == "|":
            node = self.atom()
            if self.next in ("^", "!"):
                raise Unreadable("f(x)^n")
            return node
        if self.next == "-":
            raise Unreadable("a function of a negative without brackets")
        node = self.factor()
        while self.starts_factor() and self.next not in (*_FUNCTIONS, *_OF_SEVERAL, *_BRACKETS, r"\log", "|"):
            node = ("multiply", node, self.factor())
        if self.next in _OVER or self.next in ("(", "["):
            raise Unreadable("f x/y")
        return node

    def of_several(self, name: str) -> Node:
        arguments = self.arguments()
        if len(arguments) < 2:
            raise Unreadable(f"{name} of one value")
        return (name, *arguments)

    def arguments(self) -> list[Node]:
        self.expect("(")
        outer, self.in_bars = self.in_bars, False
        arguments = [self.sum()]
        while self.next == ",":
            self.take()
            arguments.append(self.sum())
        self.in_bars = outer
        self.expect(")")
        return arguments

    def series(self, name: str) -> Node:
        self.expect("_")
        self.expect("{")
        index = self.atom()
        if index[0] != "symbol":
            raise Unreadable("an index that is no variable")
        self.expect("=")
        first = self.sum()
        self.expect("}")
        self.expect("^")
        last = self.argument()
        return (name, index, first, last, self.term())


def _power(base: Node, exponent: Node) -> Node:
    return ("exp", exponent) if base == ("e",) else ("power", base, exponent)


def _noisy(token: str) -> bool:
    """Whether a decimal has digits enough to be the image of a float."""
    whole, point, decimals = token.replace(",", "").partition(".")
    return bool(point) and len((whole + decimals).lstrip("0")) >= NOISY_DIGITS
