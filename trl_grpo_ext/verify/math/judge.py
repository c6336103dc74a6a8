"""`verify_math`: one completion against one reference."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.verdict import Verdict, VerdictKind
from trl_grpo_ext.verify.math.compare import compare, legible
from trl_grpo_ext.verify.math.exact import MAX_DIGITS, is_astronomic
from trl_grpo_ext.verify.math.extract import read_completion, read_gold
from trl_grpo_ext.verify.math.normalise import normalise
from trl_grpo_ext.verify.math.pool import Outcome, shared_pool
from trl_grpo_ext.verify.math.reference import cut_off


DEFAULT_TIMEOUT = 1.5  # seconds; a comparison that succeeds takes hundredths of one
MAX_CHARACTERS = 50_000  # answers longer than this are not read
MAX_ALGEBRA_CHARACTERS = 2_000  # nor are answers longer than this given to the algebra; published answers are < 300
MAX_NESTING = 40  # the parser recurses; deeper brackets than this occur in no published answer
_MAX_LOGGED = 300

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Pair:
    gold: str
    answer: str | None  # without one, the question is whether the reference can be read


def verify_math(gold: object, completion: str, *, timeout: float = DEFAULT_TIMEOUT) -> Verdict:
    """
    Judge whether the answer of `completion` is mathematically `gold`.

    Plain numbers, words, choices and lists of them are decided in this process; anything else by algebra in a worker
    process that is killed when it takes too long. May be called from any thread and in any process.

    Args:
        gold (`str` or number):
            The reference as datasets hold it: bare LaTeX, a number, `#### 42`, or a worked solution with a box.
        completion (`str`):
            What the model wrote. Only text after the last `</think>` counts.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take for one comparison.

    Returns:
        [`~trl_grpo_ext.verdict.Verdict`]: `value` is 1.0 or 0.0; `None` if the reference is unusable (`"unscorable"`)
        or the judging machinery failed (`"infra_error"`). Nothing a model writes raises.

    Raises:
        [`~errors.ConfigError`]: if `timeout` is not positive.

    Example:
    ```python
    >>> from trl_grpo_ext import verify_math

    >>> verify_math("\\\\frac{1}{2}", "So it is \\\\boxed{0.5}.").value
    1.0
    ```
    """
    return verify_math_batch([gold], [completion], timeout=timeout)[0]


def verify_math_batch(
    golds: Sequence[object], completions: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT
) -> list[Verdict]:
    """
    Judge many completions; pairs that need algebra share the worker pool, and equal pairs are judged once.

    Args:
        golds (`list`):
            One reference per completion.
        completions (`list[str]`):
            The completions.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take for one comparison.

    Returns:
        `list[Verdict]`: One verdict per completion, in order.

    Raises:
        [`~errors.ConfigError`]: if the lists differ in length, or `timeout` is not positive.
    """
    if len(golds) != len(completions):
        raise ConfigError(f"{len(golds)} references for {len(completions)} completions; pass one per completion")
    if not timeout > 0:
        raise ConfigError(f"timeout is {timeout!r}; it must be a positive number of seconds")
    return _judge_all([_guarded(_read, *pair) for pair in zip(golds, completions, strict=True)], timeout)


def check_golds(golds: Sequence[object], *, timeout: float = DEFAULT_TIMEOUT) -> list[Verdict]:
    """
    Check that references can be compared with anything. Judging a reference against itself does not tell: the same
    text is the same answer, whether or not it means something.

    Args:
        golds (`list`):
            The references, as [`verify_math`] takes them.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take to read one.

    Returns:
        `list[Verdict]`: One per reference, in order: `value` is 1.0, or `None` with the reason it cannot be used.
    """
    return _judge_all([_guarded(_read_alone, gold) for gold in golds], timeout)


def _judge_all(read: list[Verdict | _Pair], timeout: float) -> list[Verdict]:
    pending = list(dict.fromkeys(row for row in read if isinstance(row, _Pair)))
    if len(pending) < 2:
        judged = {pair: _guarded(_by_algebra, pair, timeout) for pair in pending}
    else:
        with ThreadPoolExecutor(min(len(pending), shared_pool().size)) as threads:
            verdicts = threads.map(lambda pair: _guarded(_by_algebra, pair, timeout), pending)
            judged = dict(zip(pending, verdicts, strict=True))
    return [judged[row] if isinstance(row, _Pair) else row for row in read]


def _guarded(step: Callable, *arguments: Any) -> Any:
    """Time a step, and keep a fault of ours on one pair from ending a training run: it becomes "not judged"."""
    started = time.perf_counter()
    try:
        result = step(*arguments)
    except Exception as error:
        _logger.error("judging %s failed: %s: %s", _short(repr(arguments)), type(error).__name__, error)
        result = Verdict(None, "infra_error", reason=f"the judge failed with {type(error).__name__}")
    return replace(result, seconds=time.perf_counter() - started) if isinstance(result, Verdict) else result


def _read_gold(gold: object) -> str | Verdict:
    """Return the normalised reference, or the verdict that it is unusable."""
    reference = read_gold(gold)
    reference = normalise(reference) if reference and len(reference) <= MAX_CHARACTERS else reference
    if not reference:
        return Verdict(None, "unscorable", reason=f"the reference {_short(repr(gold))} holds no answer")
    if cut_off(reference):
        return Verdict(None, "unscorable", reason=f"the reference {_short(reference)!r} has an unclosed brace")
    return reference


def _read_alone(gold: object) -> Verdict | _Pair:
    reference = _read_gold(gold)
    if isinstance(reference, Verdict):
        return reference
    if len(reference) > MAX_CHARACTERS or _nesting(reference) > MAX_NESTING:
        return Verdict(None, "unscorable", reason="the reference is too large to compare")
    if legible(reference):
        return Verdict(1.0, "correct", _short(reference), "read without algebra")
    if _too_much_for_algebra(reference):
        return Verdict(None, "unscorable", reason="the reference is too large for the algebra")
    return _Pair(reference, None)


def _read(gold: object, completion: str) -> Verdict | _Pair:
    """Decide by reading alone, or return the pair that needs algebra."""
    reference = _read_gold(gold)
    if isinstance(reference, Verdict):
        return reference
    if completion is None:
        return Verdict(0.0, "no_answer", reason="there is no completion")
    if not isinstance(completion, str):
        return Verdict(None, "infra_error", reason=f"the completion is a {type(completion).__name__}, not text")
    found = read_completion(completion)
    if found.answer is None or found.kind != "found":
        return Verdict(0.0, "no_answer" if found.kind == "found" else found.kind, reason=found.source)
    if found.answer == reference:
        return _verdict(True, found.answer, "the same text")
    if len(found.answer) > MAX_CHARACTERS:
        return _malformed(found.answer, f"longer than {MAX_CHARACTERS} characters")
    answer = normalise(found.answer)
    if not answer:
        return Verdict(0.0, "no_answer", reason=f"the {found.source} holds no answer")
    if _nesting(answer) > MAX_NESTING and answer != reference:
        return _malformed(answer, f"nested deeper than {MAX_NESTING}")
    if len(reference) > MAX_CHARACTERS or _nesting(reference) > MAX_NESTING:
        return Verdict(None, "unscorable", _short(answer), "the reference is too large to compare")
    decided = compare(reference, answer)
    if decided is not None:
        return _verdict(decided, answer, f"read from the {found.source}")
    fault = _too_much_for_algebra(answer)
    if fault:
        return _malformed(answer, fault)
    if is_astronomic(answer) and not is_astronomic(reference):
        return _malformed(answer, "a number with too many digits to compute, unlike the reference")
    if _too_much_for_algebra(reference):
        return Verdict(None, "unscorable", _short(answer), "the reference is too large for the algebra")
    return _Pair(reference, answer)


def _by_algebra(pair: _Pair, timeout: float) -> Verdict:
    return _of_outcome(shared_pool().ask(pair.gold, pair.answer, timeout), pair, timeout)


def _of_outcome(outcome: Outcome, pair: _Pair, timeout: float) -> Verdict:
    answer = _short(pair.gold if pair.answer is None else pair.answer)
    if outcome.status == "unreadable" or (pair.answer is None and outcome.status == "decided" and not outcome.equal):
        return Verdict(
            None, "unscorable", answer, f"the reference {_short(pair.gold)!r} is no mathematics we can read"
        )
    if outcome.status == "decided":
        return _verdict(outcome.equal, answer, f"algebra{': ' + outcome.note if outcome.note else ''}")
    if outcome.status == "failed":
        return Verdict(None, "infra_error", answer, f"the algebra worker failed: {outcome.note}")
    if outcome.blame == "gold":
        return Verdict(None, "unscorable", answer, f"the reference could not be read: {outcome.status}")
    if outcome.status == "memory":
        return Verdict(0.0, "memory", answer, "the comparison needs too much memory")
    return Verdict(0.0, "timeout", answer, f"not decided in {timeout:g} s")


def _verdict(equal: bool, answer: str, reason: str) -> Verdict:
    kind: VerdictKind = "correct" if equal else "wrong"
    return Verdict(float(equal), kind, _short(answer), reason)


def _malformed(answer: str, reason: str) -> Verdict:
    return Verdict(0.0, "malformed", _short(answer), reason)


def _too_much_for_algebra(text: str) -> str | None:
    if len(text) > MAX_ALGEBRA_CHARACTERS:
        return f"longer than {MAX_ALGEBRA_CHARACTERS} characters"
    digits = 0
    for character in text:
        digits = digits + 1 if character.isdigit() else 0
        if digits > MAX_DIGITS:
            return f"a number of more than {MAX_DIGITS} digits"
    return None


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _short(text: str) -> str:
    return text if len(text) <= _MAX_LOGGED else text[:_MAX_LOGGED] + "…"
