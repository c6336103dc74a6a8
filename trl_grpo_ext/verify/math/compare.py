"""Compare two answers: by reading where that decides, part by part for lists and intervals, by value, else by algebra.

One ladder serves both processes. The caller's process climbs it without algebra and gets an open decision where only
algebra can tell; the worker climbs the same ladder with algebra at the end.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from trl_grpo_ext.verify.math.decision import Decision, Rung
from trl_grpo_ext.verify.math.evaluate import constant, factor_between, same_value
from trl_grpo_ext.verify.math.expression import operations, parse, symbols
from trl_grpo_ext.verify.math.normalise import normalise, spelling
from trl_grpo_ext.verify.math.options import DEFAULT_OPTIONS, MathOptions
from trl_grpo_ext.verify.math.reading import BY_READING, unit_reason
from trl_grpo_ext.verify.math.shapes import EQUALS, INFINITY, split
from trl_grpo_ext.verify.math.structures import STRUCTURES, goes_on
from trl_grpo_ext.verify.math.units import same_unit, split_unit


Algebra = Callable[[str, str], bool]

_SOMETHING = re.compile(r"\w|\\[a-zA-Z]|\\\{")
_NONSENSE = re.compile(r"[?@#\"]|%\s*[%\w\\]")
_APPROXIMATELY = re.compile(r"(?<=\S)\s*\\approx.*\Z|\A\s*\\approx\s*", re.DOTALL)
_LEAD_IN = re.compile(
    r"\\text\s*\{\s*(?:approximately|about|exactly|total:?|the answer is:?|year|answer:?)\s*\}\s*=?\s*", re.IGNORECASE
)
_SAYS = r"[^{}\d]*\b(?:is|are|equals?|exactly|approximately|about|total|be|have|has|gets?|gives?|answer|solution)\s*:?"
_SAID = re.compile(rf"\A\\text\s*\{{{_SAYS}\s*\}}\s*(?=\S)", re.IGNORECASE)
_SAID_NUMBER = re.compile(
    rf"\A\\text\s*\{{\s*(?:{_SAYS}\s+)?(?P<number>[-+]?[\d.,/]*\d%?)(?P<tail>(?:\s[^{{}}\d]*)?)\}}\Z", re.IGNORECASE
)
_ELLIPSIS = re.compile(
    r"(?P<given>-?\d{1,6}(?:\s*(?P<sign>[+,])\s*-?\d{1,6})+)\s*(?P=sign)\s*\\ldots\s*(?P=sign)\s*(?P<last>-?\d{1,6})\Z"
)
_MAX_WRITTEN_OUT = 1_000  # members of a progression
_LAST_CONSTANT = re.compile(r"\+\s*([A-Za-z])\Z|\A([A-Za-z])\s*\+")
_ADDED_NAMES = frozenset("CcK")


@dataclass(frozen=True)
class Ladder:
    """
    The rungs, with what they need.

    Args:
        options ([`MathOptions`], *optional*):
            The conventions.
        algebra (`Callable`, *optional*):
            Decides a pair of values that nothing else can.
        trace (`list[Rung]`, *optional*):
            Gets a [`Rung`] for each step that looks at the whole answers.
    """

    options: MathOptions = DEFAULT_OPTIONS
    algebra: Algebra | None = None
    trace: list[Rung] | None = None

    def climb(self, gold: str, answer: str) -> Decision:
        """Decide whether `answer`, or a part of it, is `gold`; `equal` is `None` only without `algebra`."""
        if not spelling(gold) or not _SOMETHING.search(answer):
            return self._noted("same text", gold, answer, Decision(False, "nothing to compare"))
        if spelling(gold) == spelling(answer):
            return self._noted("same text", gold, answer, Decision(True, "the same text"))
        self._note("same text", gold, answer, None)
        gold, answer = _strip_prose(gold), _strip_prose(answer)
        inner = replace(self, trace=None)
        for name, rung in (*BY_READING, *STRUCTURES):
            decision = rung(gold, answer, inner)
            self._note(name, gold, answer, decision)
            if decision is not None:
                return decision
        return self.values(gold, answer)

    def values(self, gold: str, answer: str) -> Decision:
        """Compare what has no structure: by value, then by algebra."""
        gold_value, gold_unit = split_unit(gold)
        answer_value, answer_unit = split_unit(answer)
        decision = self._by_value(gold, answer, (gold_value, gold_unit), (answer_value, answer_unit))
        self._note("values", gold, answer, decision)
        if decision is not None:
            return decision
        if self.algebra is None:
            return self._noted("algebra", gold, answer, Decision(None, "only algebra can tell"))
        equal = self.algebra(gold_value, answer_value)
        return self._noted("algebra", gold, answer, Decision(equal, "shown equal" if equal else "not shown equal"))

    def _by_value(
        self, gold: str, answer: str, gold_parts: tuple[str, str], answer_parts: tuple[str, str]
    ) -> Decision | None:
        if _NONSENSE.search(answer) and not _NONSENSE.search(gold):
            return Decision(False, "signs that no value has")
        turned = _angles(gold_parts, answer_parts)
        if turned is not None:
            gold_parts, answer_parts = (turned[0], ""), (turned[1], "")
        if not same_unit(gold_parts[1], answer_parts[1], self.options.units):
            return Decision(False, unit_reason(gold_parts[1], answer_parts[1]))
        if gold_parts[0].endswith("%") != answer_parts[0].endswith("%"):
            percentage = self._percentages(gold_parts[0], answer_parts[0])
            if percentage is not None:
                return percentage
        for rung in (_infinities, _nothings, self._equations):
            decision = rung(gold_parts[0], answer_parts[0])
            if decision is not None:
                return decision
        equal = same_value(gold_parts[0], _with_constant(*gold_parts[:1], answer_parts[0]), self.options.tolerance)
        if equal is None:
            return None
        return Decision(equal, "the same value" if equal else _value_reason(gold_parts[0], answer_parts[0]))

    def _percentages(self, gold: str, answer: str) -> Decision | None:
        """An expression with a percent sign against one without."""
        if self.options.percent == "sign":
            return Decision(False, "one is a percentage, the other is not")
        bare = constant(gold.rstrip("% "))
        if self.options.percent == "value" or bare is None or abs(bare) < 1:
            return None
        same = same_value(gold.rstrip("% "), answer.rstrip("% "), self.options.tolerance)
        return Decision(True, "the same percentage, the sign left out") if same else None

    def _equations(self, gold: str, answer: str) -> Decision | None:
        """Equations are equal up to a factor; an equation that is still to be solved is no value."""
        gold_sides, answer_sides = split(gold, EQUALS), split(answer, EQUALS)
        if len(gold_sides) == len(answer_sides) == 2:
            same, _ = factor_between((gold_sides[0], gold_sides[1]), (answer_sides[0], answer_sides[1]))
            if same is None:
                return None
            return Decision(same, "the same equation up to a factor" if same else "another equation")
        for sides, other, flipped in ((gold_sides, answer_sides, False), (answer_sides, gold_sides, True)):
            if len(sides) != 2 or len(other) != 1:
                continue
            left = parse(sides[0])
            if left is None or parse(sides[1]) is None or parse(other[0]) is None:
                return None
            if symbols(left):
                only_names = operations(left) <= {"symbol", "multiply", "divide"}
                return None if only_names else Decision(False, "an equation against a value")
            if same_value(sides[0], sides[1]) is False:
                return Decision(False, "an equation that does not hold")
            return self.climb(sides[1], other[0]) if not flipped else self.climb(other[0], sides[1])
        return None

    def _note(self, name: str, gold: str, answer: str, decision: Decision | None) -> None:
        if self.trace is not None:
            decided = "passed on" if decision is None else _said(decision)
            self.trace.append(Rung(name, f"{gold[:200]} | {answer[:200]}", decided))

    def _noted(self, name: str, gold: str, answer: str, decision: Decision) -> Decision:
        self._note(name, gold, answer, decision)
        return decision


def compare(
    gold: str,
    answer: str,
    algebra: Algebra | None = None,
    options: MathOptions = DEFAULT_OPTIONS,
    trace: list[Rung] | None = None,
) -> Decision:
    """
    Decide whether `answer` is `gold`.

    Args:
        gold (`str`):
            The reference, normalised.
        answer (`str`):
            The answer, normalised.
        algebra (`Callable`, *optional*):
            Decides a pair that nothing else can.
        options ([`MathOptions`], *optional*):
            The conventions.
        trace (`list[Rung]`, *optional*):
            Gets the steps.

    Returns:
        [`Decision`]: `equal` is `None` only without `algebra`, where only algebra can tell.
    """
    return Ladder(options, algebra, trace).climb(gold, answer)


@lru_cache(maxsize=1024)
def legible(text: str) -> bool:
    """Whether a normalised answer is a number, a time, a choice, text or a ratio: what needs no value to compare."""
    for _, rung in BY_READING:
        decision = rung(text, text, Ladder())
        if decision is not None and decision.equal:
            return True
    return False


def _said(decision: Decision) -> str:
    return f"{ {True: 'equal', False: 'different', None: 'open'}[decision.equal] }: {decision.reason}"


def _strip_prose(text: str) -> str:
    text = _LEAD_IN.sub("", text, count=1)
    if "\\text" in text:
        text = _SAID_NUMBER.sub(r"\g<number>\\text{\g<tail>}", _SAID.sub("", text, count=1))
    if "\\ldots" in text:
        text = _written_out(text)
    return normalise(_APPROXIMATELY.sub("", text)) if "\\approx" in text else text.strip()


def _written_out(text: str) -> str:
    """`1, 2, …, 5` with all its members, and `1 + 2 + … + 5` as their sum; anything else unchanged."""
    match = _ELLIPSIS.match(text.strip("{} "))
    if not match:
        return text
    given = [int(number) for number in re.findall(r"-?\d+", match.group("given"))]
    last, step = int(match.group("last")), given[1] - given[0]
    members = list(range(given[0], last + (1 if step > 0 else -1), step)) if step else []
    if members[: len(given)] != given or members[-1] != last or len(members) > _MAX_WRITTEN_OUT:
        return text
    return str(sum(members)) if match.group("sign") == "+" else ", ".join(map(str, members))


def _angles(gold: tuple[str, str], answer: tuple[str, str]) -> tuple[str, str] | None:
    """An angle in degrees against one in radians, both in radians; `None` for other pairs."""
    for degrees, radians in ((gold, answer), (answer, gold)):
        said = radians[1] == "radian" or (not radians[1] and "\\pi" in radians[0] and "\\pi" not in degrees[0])
        if degrees[1] == "degree" and said and parse(degrees[0]) is not None:
            turned = rf"({degrees[0]})\cdot\frac{{\pi}}{{180}}"
            return (turned, answer[0]) if degrees is gold else (gold[0], turned)
    return None


def _infinities(gold: str, answer: str) -> Decision | None:
    signs = [INFINITY.match(text) for text in (gold, answer)]
    if all(signs):
        same = len({(sign.group(1) if sign else "") == "-" for sign in signs}) == 1
        return Decision(same, "the same infinity" if same else "the other infinity")
    if any(signs) and (parse(gold) is not None or parse(answer) is not None):
        return Decision(False, "infinity against a value")
    return None


def _nothings(gold: str, answer: str) -> Decision | None:
    if "\\ldots" in gold + answer and {goes_on(gold), goes_on(answer)} == {True, False}:
        return Decision(False, "a value against one that goes on")
    if (gold == "\\emptyset") != (answer == "\\emptyset") and (parse(gold) is not None or parse(answer) is not None):
        return Decision(False, "the empty set against a value")
    return None


def _with_constant(gold: str, answer: str) -> str:
    """The answer with the reference's name of a constant of integration: that name is free."""
    ours, theirs = _LAST_CONSTANT.search(gold), _LAST_CONSTANT.search(answer)
    if not (ours and theirs):
        return answer
    name, other = ours.group(1) or ours.group(2), theirs.group(1) or theirs.group(2)
    trees = parse(gold), parse(answer)
    if name == other or not {name, other} <= _ADDED_NAMES or "C" not in (name, other) or None in trees:
        return answer
    rest, other_rest = ((symbols(tree) - {added}) for tree, added in zip(trees, (name, other), strict=True) if tree)
    if rest != other_rest or len(rest) != 1 or rest & {name, other}:
        return answer  # a constant of integration stands beside the one variable of the integral
    at = theirs.start(1) if theirs.group(1) else theirs.start(2)
    return answer[:at] + name + answer[at + 1 :]


def _value_reason(gold: str, answer: str) -> str:
    golds, answers = parse(gold), parse(answer)
    if golds is not None and answers is not None and symbols(golds) != symbols(answers):
        return "other variables"
    return "another value" if golds is not None and not symbols(golds) else "another function of its variables"
