"""Is a dataset fit to train on? What its own judge makes of every reference, before a GPU hour is spent on it.

This needs judges and nothing else, so it lives on their floor: no dataset library, no terminal. The caller hands rows
over in batches of any size; kept from one batch to the next are a few bytes for each row that has a prompt.
"""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.registry import nearest_names
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.code import Case, CodeOptions, fenced, verify_code_batch
from trl_grpo_ext.verify.math import MathOptions, check_golds, read_gold, verify_math_batch


_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")  # neither a LaTeX command nor a variable
_MOST_WORDS = 15  # published answers have up to five


@dataclass(frozen=True)
class Domain:
    """
    How the references of one kind of problem are checked.

    Args:
        columns (`tuple[str, ...]`):
            Columns in which datasets hold the reference; the first that a dataset has is taken.
        read (`Callable`):
            The answer in a reference as text, or `None` if there is none.
        check (`Callable`):
            Given references, one verdict for each: 1.0 if anything can be compared with it.
        judge (`Callable`):
            Given references and as many others, one verdict for each pair: is the other one, given as the final
            answer of a completion, right?
        solution_columns (`tuple[str, ...]`, *optional*):
            Where a reference says how answers are judged and is none itself: columns in which datasets hold a right
            answer; the first that a dataset has is taken, and it may have none.
        join (`Callable`, *optional*):
            Makes what the functions above take as a reference of what is in both columns.
        empty (*optional*):
            A reference with an answer that no other reference should take for right.
        like_others (`str`, *optional*, defaults to `"right for"`):
            What a reference is that takes the answers of many other rows for right: words that "40 of 64 other rows"
            can follow.
    """

    columns: tuple[str, ...]
    read: Callable[[Any], str | None]
    check: Callable[[Sequence[Any]], list[Verdict]]
    judge: Callable[[Sequence[Any], Sequence[Any]], list[Verdict]]
    solution_columns: tuple[str, ...] = ()
    join: Callable[[object, object], object] = lambda reference, solution: reference
    empty: object = None
    like_others: str = "right for"

    def gold(self, row: Mapping[str, Any]) -> Any:
        """The reference in a row, from the columns that it has."""
        reference, solution = (
            next((row[name] for name in names if name in row), None) for names in (self.columns, self.solution_columns)
        )
        return self.join(reference, solution)


def math_domain(options: MathOptions | None = None) -> Domain:
    """
    Maths: the references are answers, each of which can be given as the answer to another row.

    Args:
        options ([`~trl_grpo_ext.verify.math.MathOptions`], *optional*):
            The conventions of the run.

    Returns:
        [`Domain`]
    """
    conventions = MathOptions.parse(options)

    def read(gold: object) -> str | None:
        return read_gold(gold, conventions)

    def check(golds: Sequence[object]) -> list[Verdict]:
        verdicts = check_golds(golds, options=conventions)
        refused = [_refuse_prose(read(gold)) for gold in golds]
        return [verdict if prose is None else prose for prose, verdict in zip(refused, verdicts, strict=True)]

    def judge(golds: Sequence[object], others: Sequence[object]) -> list[Verdict]:
        boxed = [f"\\boxed{{{read(other) or ''}}}" for other in others]
        return verify_math_batch(golds, boxed, options=conventions)

    return Domain(("answer", "solution"), read, check, judge)


def _refuse_prose(answer: str | None) -> Verdict | None:
    """A worked solution that does not mark its answer is a text that no completion repeats word by word."""
    words = len(_WORD.findall(answer or ""))
    if words <= _MOST_WORDS:
        return None
    return Verdict(None, "unscorable", reason=f"{words} words without a box, '####' or 'the answer is'")


@dataclass(frozen=True)
class Exercise:
    """
    A programming task, and a program that solves it.

    Args:
        case:
            The tests, as a dataset holds them.
        solution:
            The program, or `None`.
    """

    case: Any
    solution: Any = None

    def __str__(self) -> str:
        return str(self.case)


def code_domain(options: CodeOptions | None = None, sandbox: str | dict[str, Any] | None = None) -> Domain:
    """
    Programs: the references are tests, which the reference solution has to pass and other programs should fail.

    Args:
        options ([`~trl_grpo_ext.verify.code.CodeOptions`], *optional*):
            The conventions of the run.
        sandbox (`str` or `dict`, *optional*):
            Where programs run, as [`~trl_grpo_ext.sandbox.open_sandbox`] takes it.

    Returns:
        [`Domain`]
    """
    conventions = replace(CodeOptions.parse(options), credit="all")  # what others earn says nothing about the tests

    def read(exercise: Exercise) -> str | None:
        solution = exercise.solution
        return solution if isinstance(solution, str) and solution.strip() else None

    def check(exercises: Sequence[Exercise]) -> list[Verdict]:
        cases = [_parsed(exercise.case) for exercise in exercises]
        return [case if isinstance(case, Verdict) else Verdict(1.0, "correct") for case in cases]

    def judge(exercises: Sequence[Exercise], others: Sequence[Exercise]) -> list[Verdict]:
        cases = [_parsed(exercise.case) for exercise in exercises]
        programs = [read(other) for other in others]
        pairs = zip(cases, programs, strict=True)
        runs = [(case, _completion(case, program)) for case, program in pairs if isinstance(case, Case) and program]
        completions, tests = [completion for _, completion in runs], [case for case, _ in runs]
        judged = iter(verify_code_batch(completions, tests, options=conventions, sandbox=sandbox))
        return [
            case if isinstance(case, Verdict) else next(judged) if program else _NO_SOLUTION
            for case, program in zip(cases, programs, strict=True)
        ]

    return Domain(
        ("case",),
        read,
        check,
        judge,
        solution_columns=("answer", "solution"),
        join=Exercise,
        empty=Exercise(None, "pass"),
        like_others="its tests are passed by the solutions of",
    )


_NO_SOLUTION = Verdict(None, "unscorable", reason="there is no solution")


def _parsed(case: Any) -> Case | Verdict:
    try:
        return Case.parse(case)
    except DataError as error:
        return Verdict(None, "unscorable", reason=" ".join(str(error).split()))


def _completion(case: Case, program: str) -> str:
    """A program as a model would have to write it; some datasets bring the fence along."""
    return program if program.lstrip().startswith("```") else fenced(program, case.language)


@dataclass(frozen=True)
class DomainKind:
    """
    How a domain is made.

    Args:
        make (`Callable`):
            Makes it of the options of its judge, and of a sandbox if it runs programs.
        options (`type`):
            The class of these options.
        runs_programs (`bool`, *optional*, defaults to `False`):
            Whether it runs programs.
    """

    make: Callable[..., Domain]
    options: type
    runs_programs: bool = False


DEFAULT_DOMAIN = "math"  # of rows that name none
DOMAINS = {
    "math": DomainKind(math_domain, MathOptions),
    "code": DomainKind(code_domain, CodeOptions, runs_programs=True),
}


@dataclass(frozen=True)
class Kind:
    """
    A kind of finding.

    Args:
        meaning (`str`):
            What is the matter, in a few words.
        wasteful (`bool`):
            Whether training on such rows teaches nothing, or something wrong.
    """

    meaning: str
    wasteful: bool


KINDS = {
    "unreadable": Kind("the judge cannot compare anything with the gold", True),
    "judge_failed": Kind("the judge broke down, which is its own fault", True),
    "fails_itself": Kind("the gold, given as the answer, is not judged right", True),
    "empty_is_right": Kind("an answer that says nothing is judged right", True),
    "equals_others": Kind("the golds of at least half of the other rows are judged right, too", True),
    "contradiction": Kind("the prompt of an earlier row, with another answer", True),
    "no_prompt": Kind("the prompt is empty", True),
    "duplicate_row": Kind("the prompt of an earlier row, with the same answer", False),
    "duplicate_prompt": Kind("the prompt of an earlier row, with its answer written otherwise", False),
}

SUSPICIOUS_SHARE = 0.5
POOL = 512  # rows that the others are compared with; drawn once, so that a batch needs no row outside of it
_ENOUGH = 64  # comparisons before a gold is accused; the few of each row only say whom to suspect
_FEWEST = 8  # in a smaller dataset two equal answers are no news
_MAX_SHOWN = 300


@dataclass(frozen=True)
class Finding:
    """
    Something to look at in a dataset.

    Args:
        row (`int`):
            Index of the row.
        kind (`str`):
            One of `KINDS`.
        gold (`str`):
            The reference, as the judge reads it; as it is stored, if the judge cannot.
        reason (`str`):
            Why, in one line.
    """

    row: int
    kind: str
    gold: str
    reason: str


def make_domain(name: str, options: Any = None, sandbox: str | dict[str, Any] | None = None) -> Domain:
    """
    Return the domain called `name`.

    Args:
        name (`str`):
            A name in `DOMAINS`.
        options (*optional*):
            The options of its judge.
        sandbox (`str` or `dict`, *optional*):
            Where programs run, for a domain that runs programs.

    Returns:
        [`Domain`]

    Raises:
        [`~errors.ConfigError`]: if rows of that domain cannot be checked.
    """
    if name not in DOMAINS:
        nearest = nearest_names(name, list(DOMAINS))
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ConfigError(f"rows of domain {name!r} cannot be checked; {hint}supported: {', '.join(DOMAINS)}")
    kind = DOMAINS[name]
    return kind.make(options, sandbox) if kind.runs_programs else kind.make(options)


def draw_rows(n: int, seed: int) -> list[int]:
    """Indices of the rows that the others are to be compared with, of `n` rows: at most `POOL`, in order."""
    return sorted(random.Random(seed).sample(range(n), min(n, POOL)))


def plain_prompt(prompt: object) -> str:
    """What prompts that differ in case and whitespace alone have in common."""
    return json.dumps(_plain(prompt), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, str):
        return " ".join(value.lower().split())
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(map(_plain, value)) if isinstance(value, list) else value


class Validator:
    """
    Checks rows batch by batch, in any order of batches.

    Args:
        domain ([`Domain`]):
            The domain of the rows.
        others (`Mapping[int, object]`):
            References that the rows are compared with, by the index of their row (see [`draw_rows`]). Those that
            cannot be read are left out.
        gold_of (`Callable[[int], object]`):
            The reference of a row that was checked earlier.
        other_golds (`int`, *optional*, defaults to `4`):
            With how many others each reference is compared. One that equals half of them is compared with more
            before it is listed.
        seed (`int`, *optional*, defaults to `0`):
            Seed of the choice of others.

    Raises:
        [`~errors.ConfigError`]: if `other_golds` is negative.

    Example:
    ```python
    >>> from trl_grpo_ext.verify.validation import Validator, make_domain

    >>> golds = ["42", "\\\\frac{1}{"]
    >>> validator = Validator(make_domain("math"), dict(enumerate(golds)), golds.__getitem__)
    >>> [(finding.row, finding.kind) for finding in validator.check([0, 1], golds)]
    [(1, 'unreadable')]
    ```
    """

    def __init__(
        self,
        domain: Domain,
        others: Mapping[int, object],
        gold_of: Callable[[int], object],
        *,
        other_golds: int = 4,
        seed: int = 0,
    ):
        if other_golds < 0:
            raise ConfigError(f"other_golds is {other_golds}; it must be 0 or more")
        self.domain = domain
        self.gold_of = gold_of
        self.other_golds = other_golds
        answered = {row: gold for row, gold in others.items() if domain.read(gold) is not None}
        verdicts = domain.check(list(answered.values()))
        self._others = [pair for pair, verdict in zip(answered.items(), verdicts, strict=True) if verdict.value == 1.0]
        self._seed = seed
        self._seen: dict[int, int] = {}  # a digest of each prompt, and the row that had it first
        self._suspects: set[str] = set()  # answers that were compared with more, whatever came out
        self._listed: list[object] = []  # those of them that were found to equal others

    def check(
        self, rows: Sequence[int], golds: Sequence[object], prompts: Sequence[object] | None = None
    ) -> list[Finding]:
        """
        Check some rows.

        Args:
            rows (`list[int]`):
                Their indices.
            golds (`list`):
                Their references.
            prompts (`list`, *optional*):
                Their prompts; without them, nothing is said about duplicates.

        Returns:
            `list[Finding]`: in the order of the rows.
        """
        findings = list(self._unusable(rows, golds))
        unusable = {finding.row for finding in findings}
        usable = [pair for pair in zip(rows, golds, strict=True) if pair[0] not in unusable]
        findings += self._like_others(usable)
        if prompts is not None:
            asked = dict(zip(rows, prompts, strict=True))
            findings += self._duplicates([(row, gold, asked[row]) for row, gold in usable])
        return sorted(findings, key=lambda finding: finding.row)

    def _finding(self, row: int, kind: str, gold: object, reason: str) -> Finding:
        return Finding(row, kind, self._shown(gold), reason)

    def _shown(self, gold: object) -> str:
        text = self.domain.read(gold)
        text = str(gold) if text is None else text
        return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"

    def _unusable(self, rows: Sequence[int], golds: Sequence[object]) -> Iterator[Finding]:
        # The same text is the same answer, whether or not it means something, so both questions are asked.
        readable = self.domain.check(golds)
        itself = self.domain.judge(golds, golds)
        empty = self._empty(golds)
        for row, gold, *verdicts in zip(rows, golds, readable, itself, empty, strict=True):
            read, judged, nothing = verdicts
            failure = next((verdict for verdict in verdicts if verdict.kind == "infra_error"), None)
            if failure is not None:
                yield self._finding(row, "judge_failed", gold, failure.reason)
            elif read.value != 1.0:
                yield self._finding(row, "unreadable", gold, read.reason)
            elif judged.value != 1.0 and self.domain.read(gold) is not None:
                yield self._finding(row, "fails_itself", gold, f"{judged.kind}: {judged.reason}")
            elif nothing.value == 1.0:
                yield self._finding(row, "empty_is_right", gold, nothing.reason)

    def _empty(self, golds: Sequence[object]) -> list[Verdict]:
        if self.domain.empty is None:
            return [Verdict(0.0, "no_answer")] * len(golds)
        return self.domain.judge(golds, [self.domain.empty] * len(golds))

    def _like_others(self, usable: list[tuple[int, object]]) -> Iterator[Finding]:
        pairs = [(row, gold, other) for row, gold in usable for other in self._draw(row, self.other_golds)]
        verdicts = self.domain.judge([gold for _, gold, _ in pairs], [other for *_, (_, other) in pairs])
        judged: dict[int, list[Verdict]] = {}
        for (row, *_), verdict in zip(pairs, verdicts, strict=True):
            judged.setdefault(row, []).append(verdict)
        for row, gold in usable:
            values = [verdict.value for verdict in judged.get(row, [])]
            failure = next((verdict for verdict in judged.get(row, []) if verdict.kind == "infra_error"), None)
            if failure is not None:
                yield self._finding(row, "judge_failed", gold, f"beside the gold of another row: {failure.reason}")
            elif values and values.count(1.0) >= SUSPICIOUS_SHARE * len(values):
                yield from self._accuse(row, gold)

    def _accuse(self, suspect: int, gold: object) -> Iterator[Finding]:
        """List a gold if it equals others indeed, and none that was listed: one finding for one answer."""
        if self._shown(gold) in self._suspects:
            return
        self._suspects.add(self._shown(gold))
        others = self._draw(suspect, _ENOUGH)
        verdicts = self.domain.judge([gold] * len(others), [other for _, other in others])
        equal = [row for (row, _), verdict in zip(others, verdicts, strict=True) if verdict.value == 1.0]
        if len(others) < _FEWEST or len(equal) < SUSPICIOUS_SHARE * len(others):
            return
        if all(verdict.value != 1.0 for verdict in self.domain.judge([gold] * len(self._listed), self._listed)):
            self._listed.append(gold)
            reason = f"{self.domain.like_others} {len(equal)} of {len(others)} other rows, such as row {equal[0]}"
            yield self._finding(suspect, "equals_others", gold, reason)

    def _draw(self, row: int, n: int) -> list[tuple[int, object]]:
        """`n` of the others, without the row itself."""
        chance = random.Random(f"{self._seed} {row}")  # of each row its own: batches of any size draw the same
        drawn = chance.sample(self._others, min(n + 1, len(self._others)))
        return [other for other in drawn if other[0] != row][:n]

    def _duplicates(self, asked: list[tuple[int, object, object]]) -> Iterator[Finding]:
        repeated = []
        for row, gold, prompt in asked:
            if not prompt or (isinstance(prompt, str) and not prompt.strip()):
                yield self._finding(row, "no_prompt", gold, f"the prompt is {prompt!r}")
                continue
            digest = hashlib.blake2b(plain_prompt(prompt).encode("utf-8", "replace"), digest_size=8).digest()
            first = self._seen.setdefault(int.from_bytes(digest, "big"), row)
            if first != row:
                repeated.append((row, gold, first, self.gold_of(first)))
        verdicts = self.domain.judge([earlier for *_, earlier in repeated], [gold for _, gold, *_ in repeated])
        for (row, gold, first, earlier), verdict in zip(repeated, verdicts, strict=True):
            if gold == earlier:
                yield self._finding(row, "duplicate_row", gold, f"the same as row {first}")
            elif verdict.value is not None:
                kind = "duplicate_prompt" if verdict.value == 1.0 else "contradiction"
                yield self._finding(row, kind, gold, f"row {first} says '{self._shown(earlier)}'")
