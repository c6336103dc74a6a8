"""Find the answer in a completion, and the reference in the forms datasets store it. Every search here is linear."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Literal

from trl_grpo_ext.verify.math.options import DEFAULT_OPTIONS, MathOptions
from trl_grpo_ext.verify.thinking import thinking_marks


_BOX = re.compile(r"\\f?boxed(?![a-zA-Z])\s*")
_ANNOUNCED = re.compile(
    r"(?:\b(?:final\s+)?answer\b(?:\s+is\b)?|\bfinal\s+(?:result|value)\b(?:\s+is\b)?|\bthe\s+result\s+is\b"
    r"|\bcorrect\s+(?:option|choice)\s+is\b)"
    r"\s*(?:\*\*|__)?\s*[:=]?\s*(?:\*\*|__)?",
    re.IGNORECASE,
)
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$,;&~*]|\\[()\[\],;!: ]|\\q?quad|(?:\\text|\\mathrm)\s*\{\s*(?:and|or|,)\s*\}|\b(?:and|or)\b"
    r"|\b[a-zA-Z]\s*=|\\(?:text|math)bf\s*\{|\})*\Z"
)
_MATH_SPAN = re.compile(
    r"\$\$(?P<a>[^$]+)\$\$|\$(?P<b>(?:\\\$|[^$\n])+?)(?<!\\)\$|\\\((?P<c>[^\n]{1,2000}?)\\\)|\\\[(?P<d>.{1,2000}?)\\\]",
    re.DOTALL,
)
_BARE_BOX = re.compile(r"\d[\d.,]*\d|[^\s$\\]")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_FORMULA_END = re.compile(r"\$|\\[)\]]")
_CUT_OFF = re.compile(r"\{?[^\n]{0,300}\Z")  # a value as long as any, and then nothing: the length limit, not a slip
_CUT = re.compile(r"\A\\[(\[](?![\s\S]*\\[)\]])|[-+*/^_=,(]\s*\Z")
# "The answer isn't 5", "the answer cannot be 5", "the answer was thought to be 5".
_DENIED = re.compile(
    r"n['’]t\b|\s*(?:(?:is|was|are|were|could|would|will|should|must|may|might|does|did|do|has|had)(?:n['’]t|\s+not)\b"
    r"|can(?:not|['’]t|\s+not)\b|(?:never|not|hardly|unlikely)\b"
    r"|(?:is|was|were|had\s+been|has\s+been)\s+(?:never|not|hardly|unlikely|thought|believed|supposed|said|claimed|assumed)\b)",
    re.IGNORECASE,
)
_PARAGRAPH = re.compile(r"\n\s*\n")
_LAST_IS = re.compile(r".*\bis\b", re.DOTALL)
_CLAUSE = re.compile(r"(?:[.!?;](?=\s|\Z)|,?\s+(?:because|since|which|as|so|when|where|for|I hope)\b)")
_LAST_NUMBER = re.compile(
    r"(?P<number>(?<![\w.^{\\])[-+−]?\$?\d[\d,]{0,400}(?:\.\d{1,400})?(?:/\d{1,400})?%?)(?:\s*[a-zA-Z°]{1,15}){0,2}[\s.!*$`]*\Z"
)
_LAST_EMPHASIS = re.compile(r"\*\*([^*\n]{1,100})\*\*[\s.!]*\Z")
_CHOSEN = re.compile(r"\b(?:option|choice)\s+(\(?[A-F]\)?)\s+is\s+(?:the\s+)?(?:correct|right)\b", re.IGNORECASE)
_TAIL = 4_000  # where an unboxed answer may stand, in characters from the end: it is the last thing a completion says


@dataclass(frozen=True)
class Extraction:
    """
    What was read from a completion.

    Args:
        answer (`str` or `None`):
            The answer as written, or `None`.
        kind (`str`):
            `"found"`, or why there is none: `"no_answer"`, `"malformed"`, `"truncated"`.
        source (`str`):
            Where it was read: `"answer tag"`, `"box"`, `"announcement"`, `"closing emphasis"`, `"closing formula"`,
            `"closing number"`, `"whole text"`; for a missing answer, what was wrong.
    """

    answer: str | None
    kind: Literal["found", "no_answer", "malformed", "truncated"]
    source: str


def read_completion(text: str, options: MathOptions = DEFAULT_OPTIONS) -> Extraction:
    """
    Find the answer a completion commits to.

    Only text after the last `</think>` counts. In it, in this order: the last `<answer>…</answer>`; the last
    `\\boxed{…}` (adjacent boxes joined by "and" or commas form a list); the last announced answer ("answer is …",
    "#### …"); and, for text that announces nothing, the bold words, formula or number it ends with, or all of a short
    line.

    Args:
        text (`str`):
            The completion.
        options ([`MathOptions`], *optional*):
            `thinking_end`, `answer_tags` and `fallback` say where to look.

    Returns:
        [`Extraction`]
    """
    spoken = _after_thinking(text, options)
    if spoken is None:
        return Extraction(None, "truncated", "the reasoning was never closed")
    inside = _answer_tag(spoken, options.answer_tags)
    if inside is not None:
        found = _read_spoken(inside, options)
        if found.source in ("box", "announcement", "empty box") or found.kind in ("malformed", "truncated"):
            return found
        content = inside.strip()
        if not content:
            return Extraction(None, "no_answer", "the answer tag is empty")
        return Extraction(content, "found", "answer tag")
    opened = max((spoken.rfind(f"<{tag}>") for tag in options.answer_tags), default=-1)
    if opened >= 0:
        return _read_boxes(spoken[opened:]) or Extraction(None, "truncated", "the answer tag was never closed")
    return _read_spoken(spoken, options)


def read_gold(gold: object, options: MathOptions = DEFAULT_OPTIONS) -> str | None:
    """
    Read a reference answer as datasets hold it: bare LaTeX, a number, `#### 42`, a worked solution with a box.

    Args:
        gold (`object`):
            The reference. Numbers are accepted; anything else that is not a string is unusable.
        options ([`MathOptions`], *optional*):
            `answer_tags` are read in references, too.

    Returns:
        `str` or `None`: The reference answer, or `None` when there is nothing to compare with.
    """
    if isinstance(gold, Real) and not isinstance(gold, bool):
        return str(int(gold)) if isinstance(gold, Integral) else repr(float(gold)) if isfinite(gold) else None
    if not isinstance(gold, str):
        return None
    if "####" in gold:
        gold = gold.rsplit("####", 1)[1]
    boxed = _read_boxes(gold)
    if boxed is not None:
        return boxed.answer
    gold = _answer_tag(gold, options.answer_tags) or gold
    announced = _read_announced(gold) if len(gold.split()) > 3 else None
    if announced and announced.count("{") != announced.count("}"):
        announced = None  # it was announced inside an argument
    answer = announced or gold.strip()
    return answer or None


def _after_thinking(text: str, options: MathOptions) -> str | None:
    marks = thinking_marks(options.thinking_end)
    closed = max(text.rfind(mark) + len(mark) if mark in text else 0 for _, mark in marks)
    opened = max(text.rfind(mark) if mark else -1 for mark, _ in marks)
    return None if opened >= closed and opened >= 0 else text[closed:]


def _answer_tag(text: str, tags: Sequence[str]) -> str | None:
    last, inside = -1, None
    for tag in tags:
        end = text.rfind(f"</{tag}>")
        start = text.rfind(f"<{tag}>", 0, max(end, 0))
        if start > last:
            last, inside = start, text[start + len(tag) + 2 : end]
    return inside


def _read_spoken(text: str, options: MathOptions) -> Extraction:
    boxed = _read_boxes(text)
    if boxed is not None:
        return boxed
    tail = text[-_TAIL:].strip()
    announced = _read_announced(tail)
    if announced == "":
        return Extraction(None, "no_answer", "the text says what the answer is not")
    chosen = None if announced else _CHOSEN.search(tail)
    if chosen:
        return Extraction(chosen.group(1), "found", "announcement")
    if announced is not None:
        open_brace = announced.count("{") > announced.count("}")
        if tail.endswith(announced) and (open_brace or _CUT.search(announced)):
            return Extraction(None, "truncated", "the text ends inside the announced answer")
        return Extraction(announced, "found", "announcement")
    if options.fallback == "none":
        return Extraction(None, "no_answer", "no box, no answer tag and no announced answer")
    emphasis = _LAST_EMPHASIS.search(tail[-200:])
    if emphasis:
        return Extraction(emphasis.group(1).strip(), "found", "closing emphasis")
    spans = list(_MATH_SPAN.finditer(tail))
    if spans and not tail[spans[-1].end() :].strip(" .*!`\n"):
        return Extraction(_span_content(spans[-1]), "found", "closing formula")
    number = _LAST_NUMBER.search(tail[-900:])
    if number:
        return Extraction(number.group("number"), "found", "closing number")
    if tail and len(tail) <= 100 and "\n" not in tail:
        return Extraction(tail, "found", "whole text")
    return Extraction(None, "no_answer", "no box, no announced answer, and the text does not end with one")


def _read_boxes(text: str) -> Extraction | None:
    marks = list(_BOX.finditer(text))
    if not marks:
        return None
    last = _box_content(text, marks[-1].end(), len(text))
    if last is None:
        if _CUT_OFF.match(text, marks[-1].end()):
            return Extraction(None, "truncated", "the text ends inside the last box")
        return Extraction(None, "malformed", "the last box is never closed")
    if not last[0].strip("$ \t\n{}"):
        return Extraction(None, "no_answer", "empty box")
    contents, start = [last[0].strip()], marks[-1].start()
    for mark in reversed(marks[:-1]):
        content = _box_content(text, mark.end(), start)
        between = text[content[1] : start] if content is not None else ""
        # Boxes that nothing joins are one answer after another, of which the last counts.
        if content is None or not between or len(between) > 100 or not _BETWEEN_BOXES.match(between):
            break
        contents.append(content[0].strip())
        start = mark.start()
    return Extraction(", ".join(dict.fromkeys(content for content in reversed(contents) if content)), "found", "box")


def _box_content(text: str, start: int, end: int) -> tuple[str, int] | None:
    if start >= end:
        return None
    if text[start] != "{":
        bare = _BARE_BOX.match(text, start, end)
        return (bare.group(), bare.end()) if bare else None
    depth = 0
    for token in _BRACE.finditer(text, start, end):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return text[start + 1 : token.start()], token.end()
    # A forgotten brace is forgiven when the formula around the box ends: nothing of the value was cut off.
    formula_end = _FORMULA_END.search(text, start, end)
    inside = text[start + 1 : formula_end.start()] if formula_end else ""
    if formula_end and "\n" not in inside and inside.count("{") == inside.count("}"):
        return inside, formula_end.start()
    return None


def _read_announced(text: str) -> str | None:
    marker = text.rfind("####")
    if marker >= 0:
        return _first_answer(text[marker + 4 :].strip().split("\n", 1)[0])
    for mark in reversed(list(_ANNOUNCED.finditer(text))):
        rest = text[mark.end() :].lstrip()
        if _DENIED.match(text, mark.end()):
            return ""
        complete = mark.group().rstrip(" \n*_").lower().endswith(("is", ":", "="))
        if complete or rest.startswith(("$", "\\(", "\\[")):
            answer = _first_answer(rest[:600])
            if answer:
                return answer
    return None


def _first_answer(text: str) -> str | None:
    paragraph = _PARAGRAPH.split(text.strip(), maxsplit=1)[0]
    formula = _MATH_SPAN.match(paragraph)
    if formula:
        return _span_content(formula)
    clause = _CLAUSE.search(paragraph)
    sentence = paragraph[: clause.start()] if clause else paragraph
    last_is = _LAST_IS.match(sentence)
    said = sentence[last_is.end() :] if last_is else sentence
    formula = _MATH_SPAN.search(said)
    if formula:
        return _span_content(formula)
    return said.strip().split("\n", 1)[0].strip("*`_ ") or None


def _span_content(span: re.Match) -> str:
    return next(group for group in span.groups() if group is not None).strip()
