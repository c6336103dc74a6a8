"""`verify_math`: one completion against one reference."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.verdict import Verdict, VerdictKind
from trl_grpo_ext.verify.math.compare import compare, legible
from trl_grpo_ext.verify.math.decision import Explanation, Rung
from trl_grpo_ext.verify.math.exact import MAX_DIGITS, is_astronomic
from trl_grpo_ext.verify.math.extract import Extraction, read_completion, read_gold
from trl_grpo_ext.verify.math.normalise import normalise, with_decimal_point
from trl_grpo_ext.verify.math.options import MathOptions
from trl_grpo_ext.verify.math.pool import Outcome, Request, shared_pool
from trl_grpo_ext.verify.math.reference import cut_off


DEFAULT_TIMEOUT = 1.5  # seconds; a comparison that succeeds takes hundredths of one
MAX_CHARACTERS = 50_000  # answers longer than this are not read
MAX_ALGEBRA_CHARACTERS = 2_000  # nor are answers longer than this given to the algebra; published answers are < 300
MAX_NESTING = 40  # the parser recurses; deeper brackets than this occur in no published answer
_MAX_LOGGED = 300
_MAX_TOLD = 60  # characters of an answer within a reason
_MAX_REMEMBERED = 10_000  # characters of a reference that is kept

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Pair:
    gold: str
    answer: str | None  # without one, the question is whether the reference can be read


Trace = list[Rung] | None


def verify_math(
    gold: object, completion: str, *, options: MathOptions | None = None, timeout: float = DEFAULT_TIMEOUT
) -> Verdict:
    """
    Judge whether the answer of `completion` is mathematically `gold`.

    Numbers, words, lists, sets, equations and expressions that can be computed are decided in this process; anything
    else by algebra in a worker process that is killed when it takes too long. May be called from any thread and in
    any process.

    Args:
        gold (`str` or number):
            The reference as datasets hold it: bare LaTeX, a number, `#### 42`, or a worked solution with a box.
        completion (`str`):
            What the model wrote. Only text after the last `</think>` counts.
        options ([`MathOptions`], *optional*):
            The conventions; the defaults are those of published benchmarks.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take for one comparison.

    Returns:
        [`~trl_grpo_ext.verdict.Verdict`]: `value` is 1.0 or 0.0; `None` if the reference is unusable (`"unscorable"`)
        or the judging machinery failed (`"infra_error"`). Nothing a model writes raises.

    Raises:
        [`~errors.ConfigError`]: if `timeout` is not positive, or `options` are none.

    Example:
    ```python
    >>> from trl_grpo_ext import verify_math

    >>> verify_math("\\\\frac{1}{2}", "So it is \\\\boxed{0.5}.").value
    1.0
    ```
    """
    return verify_math_batch([gold], [completion], options=options, timeout=timeout)[0]


def verify_math_batch(
    golds: Sequence[object],
    completions: Sequence[str],
    *,
    options: MathOptions | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> list[Verdict]:
    """
    Judge many completions; pairs that need algebra share the worker pool, and equal pairs are judged once.

    Args:
        golds (`list`):
            One reference per completion.
        completions (`list[str]`):
            The completions.
        options ([`MathOptions`], *optional*):
            The conventions.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take for one comparison.

    Returns:
        `list[Verdict]`: One verdict per completion, in order.

    Raises:
        [`~errors.ConfigError`]: if the lists differ in length, `timeout` is not positive, or `options` are none.
    """
    if len(golds) != len(completions):
        raise ConfigError(f"{len(golds)} references for {len(completions)} completions; pass one per completion")
    checked = _checked(options, timeout)
    read = [_guarded(_read, gold, text, checked) for gold, text in zip(golds, completions, strict=True)]
    return _judge_all(read, checked, timeout)


def explain_math(
    gold: object, completion: str, *, options: MathOptions | None = None, timeout: float = DEFAULT_TIMEOUT
) -> Explanation:
    """
    Judge one completion and say how: what was read, and what each rung of the ladder saw and decided.

    Args:
        gold (`str` or number):
            The reference, as [`verify_math`] takes it.
        completion (`str`):
            What the model wrote.
        options ([`MathOptions`], *optional*):
            The conventions.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take.

    Returns:
        [`Explanation`]: The verdict of [`verify_math`], and the steps to it.

    Raises:
        [`~errors.ConfigError`]: if `timeout` is not positive, or `options` are none.

    Example:
    ```python
    >>> from trl_grpo_ext.verify.math import explain_math

    >>> explain_math("1/3", "\\\\boxed{0.33}").verdict.reason
    'gold 1/3, answer 0.33: differs by more than the tolerance'
    ```
    """
    checked = _checked(options, timeout)
    trace: list[Rung] = []
    verdict = _guarded(_read, gold, completion, checked, trace)
    if isinstance(verdict, _Pair):
        verdict = _guarded(_by_algebra, verdict, checked, timeout, trace)
    return Explanation(verdict, tuple(trace))


def check_golds(
    golds: Sequence[object], *, options: MathOptions | None = None, timeout: float = DEFAULT_TIMEOUT
) -> list[Verdict]:
    """
    Check that references can be compared with anything. Judging a reference against itself does not tell: the same
    text is the same answer, whether or not it means something.

    Args:
        golds (`list`):
            The references, as [`verify_math`] takes them.
        options ([`MathOptions`], *optional*):
            The conventions.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds the algebra may take to read one.

    Returns:
        `list[Verdict]`: One per reference, in order: `value` is 1.0, or `None` with the reason it cannot be used.

    Raises:
        [`~errors.ConfigError`]: if `timeout` is not positive, or `options` are none.
    """
    checked = _checked(options, timeout)
    return _judge_all([_guarded(_read_alone, gold, checked) for gold in golds], checked, timeout)


def _checked(options: MathOptions | None, timeout: float) -> MathOptions:
    if not timeout > 0:
        raise ConfigError(f"timeout is {timeout!r}; it must be a positive number of seconds")
    return MathOptions.parse(options)


def _judge_all(read: list[Verdict | _Pair], options: MathOptions, timeout: float) -> list[Verdict]:
    pending = list(dict.fromkeys(row for row in read if isinstance(row, _Pair)))
    if len(pending) < 2:
        judged = {pair: _guarded(_by_algebra, pair, options, timeout) for pair in pending}
    else:
        with ThreadPoolExecutor(min(len(pending), shared_pool().size)) as threads:
            verdicts = threads.map(lambda pair: _guarded(_by_algebra, pair, options, timeout), pending)
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


def _read_gold(gold: object, options: MathOptions) -> str | Verdict:
    """Return the normalised reference, or the verdict that it is unusable."""
    if isinstance(gold, str) and len(gold) <= _MAX_REMEMBERED:
        return _remembered_gold(gold, options)
    return _read_any_gold(gold, options)


@lru_cache(maxsize=2048)
def _remembered_gold(gold: str, options: MathOptions) -> str | Verdict:
    """A group of completions shares one reference."""
    return _read_any_gold(gold, options)


def _read_any_gold(gold: object, options: MathOptions) -> str | Verdict:
    reference = read_gold(gold, options)
    reference = _normal(reference, options) if reference and len(reference) <= MAX_CHARACTERS else reference
    if not reference:
        return Verdict(None, "unscorable", reason=f"the reference {_short(repr(gold))} holds no answer")
    if cut_off(reference):
        return Verdict(None, "unscorable", reason=f"the reference {_short(reference)!r} has an unclosed brace")
    return reference


def _normal(text: str, options: MathOptions) -> str:
    return normalise(with_decimal_point(text) if options.decimal_comma else text)


def _read_alone(gold: object, options: MathOptions) -> Verdict | _Pair:
    reference = _read_gold(gold, options)
    if isinstance(reference, Verdict):
        return reference
    if len(reference) > MAX_CHARACTERS or _nesting(reference) > MAX_NESTING:
        return Verdict(None, "unscorable", reason="the reference is too large to compare")
    if legible(reference):
        return Verdict(1.0, "correct", _short(reference), "read without algebra")
    if _too_much_for_algebra(reference):
        return Verdict(None, "unscorable", reason="the reference is too large for the algebra")
    return _Pair(reference, None)


def _read(gold: object, completion: str, options: MathOptions, trace: Trace = None) -> Verdict | _Pair:
    """Decide without algebra, or return the pair that needs it."""
    reference = _read_gold(gold, options)
    _note(trace, "extract gold", gold, reference.reason if isinstance(reference, Verdict) else reference)
    if isinstance(reference, Verdict):
        return reference
    if completion is None:
        return Verdict(0.0, "no_answer", reason="there is no completion")
    if not isinstance(completion, str):
        return Verdict(None, "infra_error", reason=f"the completion is a {type(completion).__name__}, not text")
    found = read_completion(completion, options)
    _note(
        trace,
        "extract answer",
        completion[-_MAX_LOGGED:],
        found.source + (f": {found.answer}" if found.answer else ""),
    )
    if found.answer is None or found.kind != "found":
        return Verdict(0.0, "no_answer" if found.kind == "found" else found.kind, reason=found.source)
    return _compare(reference, found, options, trace)


def _compare(reference: str, found: Extraction, options: MathOptions, trace: Trace) -> Verdict | _Pair:
    written = str(found.answer)
    if written == reference:
        _note(trace, "same text", reference, "equal: the same text")
        return _verdict(True, reference, written, "the same text")
    if len(written) > MAX_CHARACTERS:
        return _malformed(written, f"longer than {MAX_CHARACTERS} characters")
    answer = _normal(written, options)
    _note(trace, "normalise", written, answer)
    if not answer:
        return Verdict(0.0, "no_answer", reason=f"the {found.source} holds no answer")
    if _nesting(answer) > MAX_NESTING and answer != reference:
        return _malformed(answer, f"nested deeper than {MAX_NESTING}")
    if len(reference) > MAX_CHARACTERS or _nesting(reference) > MAX_NESTING:
        return Verdict(None, "unscorable", _short(answer), "the reference is too large to compare")
    decision = compare(reference, answer, None, options, trace)
    if decision.equal is not None:
        return _verdict(decision.equal, reference, answer, decision.reason)
    fault = _too_much_for_algebra(answer)
    if fault:
        return _malformed(answer, fault)
    if is_astronomic(answer) and not is_astronomic(reference):
        return _malformed(answer, "a number with too many digits to compute, unlike the reference")
    if _too_much_for_algebra(reference):
        return Verdict(None, "unscorable", _short(answer), "the reference is too large for the algebra")
    return _Pair(reference, answer)


def _by_algebra(pair: _Pair, options: MathOptions, timeout: float, trace: Trace = None) -> Verdict:
    request = Request(pair.gold, pair.answer, options, explain=trace is not None)
    outcome = shared_pool().ask(request, timeout)
    verdict = _of_outcome(outcome, pair, timeout)
    if trace is not None:
        if outcome.rungs:  # the worker climbs the same ladder, and further
            known = [rung.name for rung in trace].index(outcome.rungs[0].name)
            trace[known:] = outcome.rungs
        if outcome.status != "decided":
            trace[-1] = Rung("algebra", f"{pair.gold} | {pair.answer}", verdict.reason)
    return verdict


def _of_outcome(outcome: Outcome, pair: _Pair, timeout: float) -> Verdict:
    answer = _short(pair.gold if pair.answer is None else pair.answer)
    if outcome.status == "unreadable" or (pair.answer is None and outcome.status == "decided" and not outcome.equal):
        return Verdict(
            None, "unscorable", answer, f"the reference {_short(pair.gold)!r} is no mathematics we can read"
        )
    if outcome.status == "decided":
        return _verdict(outcome.equal, pair.gold, answer, outcome.note or "decided by algebra")
    if outcome.status == "failed":
        return Verdict(None, "infra_error", answer, f"the algebra worker failed: {outcome.note}")
    if outcome.blame == "gold":
        return Verdict(None, "unscorable", answer, f"the reference could not be read: {outcome.status}")
    if outcome.status == "memory":
        return Verdict(0.0, "memory", answer, _told(pair.gold, answer, "the comparison needs too much memory"))
    return Verdict(0.0, "timeout", answer, _told(pair.gold, answer, f"not decided in {timeout:g} s"))


def _verdict(equal: bool, gold: str, answer: str, why: str) -> Verdict:
    kind: VerdictKind = "correct" if equal else "wrong"
    return Verdict(float(equal), kind, _short(answer), _told(gold, answer, why))


def _told(gold: str, answer: str, why: str) -> str:
    return f"gold {_short(gold, _MAX_TOLD)}, answer {_short(answer, _MAX_TOLD)}: {why}"


def _note(trace: Trace, name: str, saw: object, decided: str) -> None:
    if trace is not None:
        trace.append(Rung(name, _short(str(saw)), _short(decided)))


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


def _short(text: str, length: int = _MAX_LOGGED) -> str:
    return text if len(text) <= length else text[:length] + "…"
