"""Find the program in a completion. Text is searched, never parsed as code, in one pass of limited length.

The last fenced block in the language of the task is the answer. A block without a language counts as well, unless it
plainly is something else (a sample of the output, a command) and stands beside a block that counts. Blocks follow
CommonMark: three or more backticks or tildes, closed by at least as many of the same kind, indented as a list item
may be; a block that is never closed goes on to the end of the text. Beyond it, a fence that opens a block with a known
language also ends the block before it, if that was left open; and `<answer>` tags may stand beside a fence.

Not covered: code between single backticks, in block quotes, or behind words on the line of the fence.
"""

import re
from dataclasses import dataclass
from typing import Literal

from trl_grpo_ext.verify.code.options import DEFAULT_OPTIONS, CodeOptions
from trl_grpo_ext.verify.thinking import thinking_marks


MAX_CHARACTERS = 1_000_000  # of the text after the thinking; the longest answers models give are a tenth of it
MAX_FENCES = 5_000
_MAX_INDENT = 200
_MAX_LINES = 400  # from which a block without a language is told to be code or not
_ANSWER_END = "</answer>"
_MARK = re.compile("`{3,}|~{3,}")
_BEFORE_MARK = re.compile(r"([ \t]*)(?:<answer>[ \t]*)?((?:[-*+]|\d{1,9}[.)])[ \t]{1,4})?")
_TAG = re.compile(r"[\w+#-]*")
TAGS = {
    "python": {"python", "python3", "py", "py3", "ipython", "ipython3"},
    "cpp": {"c++", "cpp", "cc", "cxx", "c++11", "c++14", "c++17", "c++20", "c++23", "cpp17", "cpp20"},
    "javascript": {"javascript", "js", "mjs", "node", "nodejs"},
    "rust": {"rust", "rs"},
}
_ALL_TAGS = frozenset[str]().union(*TAGS.values())
_PYTHON_LINE = re.compile(
    r"\s*(?:(?:async\s+)?def\s+\w+\s*[(\[]|class\s+\w+\s*[(:\[]|import\s+[\w., ]+\Z|from\s+[\w.]+\s+import\s"
    r"|print\(|for\s+\w[\w, ]*\sin\s|\w+\s*=\s*lambda\b|[\w, ]+=[^=].*\binput\(|sys\.std)"
)
_BRACED_LINE = re.compile(r".*[;{}]\s*\Z|\s*#include\b")
_NO_CODE = ("$ ", ">>>", "Traceback (", "In [")


@dataclass(frozen=True)
class Extraction:
    """
    What was read from a completion.

    Args:
        source (`str` or `None`):
            The program as written, or `None`.
        kind (`str`):
            `"found"`, or `"no_answer"`.
        reason (`str`, *optional*, defaults to `""`):
            Why there is none.
    """

    source: str | None
    kind: Literal["found", "no_answer"]
    reason: str = ""


@dataclass(frozen=True)
class _Fence:
    start: int  # of its line
    end: int  # of its line
    lead: str
    item: str  # the mark of a list item, on the same line
    mark: str
    info: str

    @property
    def indent(self) -> int:
        return len(self.lead) + len(self.item)

    @property
    def tag(self) -> str:
        """The first word of the info string: `{.python .x}`, `Python title="a"` and `python:main.py` say python."""
        found = _TAG.match(self.info.lower().lstrip(" \t{."))
        return found.group() if found else ""

    @property
    def can_open(self) -> bool:
        return self.mark[0] == "~" or "`" not in self.info  # else it is code within a line of prose

    def pairs(self, other: "_Fence") -> bool:
        """Whether this fence may end the block that `other` opened."""
        same_kind = self.mark[0] == other.mark[0] and len(self.mark) >= len(other.mark)
        # A deeper fence belongs to the code: it stands in the docstring of a function.
        return same_kind and len(self.lead.expandtabs(4)) < other.indent + 4

    def closes(self, other: "_Fence") -> bool:
        return self.pairs(other) and not self.item and self.info.strip() in ("", _ANSWER_END)

    def reopens(self, other: "_Fence") -> bool:
        """Whether the block that `other` opened was left open, and this fence opens the next."""
        return self.pairs(other) and self.can_open and self.tag in _ALL_TAGS


@dataclass(frozen=True)
class _Block:
    opened: _Fence
    end: int
    closed: bool = True

    @property
    def start(self) -> int:
        return min(self.opened.end + 1, self.end)


def read_program(completion: str, options: CodeOptions = DEFAULT_OPTIONS, language: str = "python") -> Extraction:
    """
    Find the program a completion commits to.

    Args:
        completion (`str`):
            The completion. Only text after the last `</think>` counts, and a `<think>` that is never closed leaves
            nothing that does.
        options ([`CodeOptions`], *optional*):
            `fence` and `thinking_end` say where to look.
        language (`str`, *optional*, defaults to `"python"`):
            One of `python, cpp, javascript, rust`: blocks in other languages are not looked at.

    Returns:
        [`Extraction`]

    Example:
    ````python
    >>> from trl_grpo_ext.verify.code import read_program

    >>> read_program("So:\\n```py\\nprint(7)\\n```\\n").source
    'print(7)\\n'
    ````
    """
    marks = thinking_marks(options.thinking_end)
    text = completion[max(completion.rfind(end) + len(end) if end in completion else 0 for _, end in marks) :]
    if len(text) > MAX_CHARACTERS:
        return _none(f"the text is longer than {MAX_CHARACTERS} characters")
    fences = _fences(text)
    if fences is None:
        return _none(f"the text has more than {MAX_FENCES} fences")
    blocks = _blocks(text, fences)
    if _still_thinking(text, blocks, marks):
        return _none("the reasoning was never closed")
    if not fences:
        return _unfenced(text, options, language)
    block = _choose(text, blocks, language)
    if block is None:
        return _none(f"no block is in {language}")
    source = _body(text, block)
    return Extraction(source, "found") if source.strip() else _none("the last block is empty")


def fenced(program: str, language: str = "python") -> str:
    """A completion that is nothing but this program: the reverse of [`read_program`]."""
    longest = max((len(mark) for mark in re.findall(r"`+", program)), default=0)
    mark = "`" * max(3, longest + 1)  # a longer fence is not closed by those within the program
    return f"{mark}{language}\n{program}\n{mark}"


def _none(reason: str) -> Extraction:
    return Extraction(None, "no_answer", reason)


def _still_thinking(text: str, blocks: list[_Block], marks: tuple[tuple[str | None, str], ...]) -> bool:
    """Whether thinking was opened in the text; within a block, the mark is a word of the program."""
    opened = [text.find(start) for start, _ in marks if start]
    return any(at >= 0 and not any(block.start <= at < block.end for block in blocks) for at in opened)


def _unfenced(text: str, options: CodeOptions, language: str) -> Extraction:
    if options.fence == "required":
        return _none("there is no fenced block")
    source = text.replace("<answer>", "").replace(_ANSWER_END, "").strip("\r\n")
    return Extraction(source, "found") if _looks_like(source, language) else _none("the text does not look like code")


def _fences(text: str) -> list[_Fence] | None:
    """The lines that begin with three backticks or tildes; nothing if it is a text of little else."""
    fences: list[_Fence] = []
    position = 0
    for _ in range(MAX_FENCES):
        mark = _MARK.search(text, position)
        if mark is None:
            return fences
        start = max(text.rfind("\n", position, mark.start()) + 1, position)
        end = text.find("\n", mark.end())
        end = len(text) if end < 0 else end
        before = _BEFORE_MARK.fullmatch(text, start, mark.start())
        if before and mark.start() - start <= _MAX_INDENT:
            fences.append(_Fence(start, end, before[1], before[2] or "", mark.group(), text[mark.end() : end]))
        position = end
    return None


def _blocks(text: str, fences: list[_Fence]) -> list[_Block]:
    blocks: list[_Block] = []
    opened: _Fence | None = None
    for fence in fences:
        if opened is not None and (fence.closes(opened) or fence.reopens(opened)):
            blocks.append(_Block(opened, fence.start))
            opened = fence if fence.reopens(opened) else None
        elif opened is None and fence.can_open:
            opened = fence
    return [*blocks, _Block(opened, len(text), closed=False)] if opened is not None else blocks


def _choose(text: str, blocks: list[_Block], language: str) -> _Block | None:
    untagged = None
    for block in reversed(blocks):
        tag = block.opened.tag
        if tag in TAGS[language]:
            return block
        if not tag:
            if _looks_like(text[block.start : block.end], language):
                return block
            untagged = untagged or block
    return untagged


def _body(text: str, block: _Block) -> str:
    body = text[block.start : block.end].replace("\r\n", "\n")
    if not block.closed and body.rstrip().endswith(_ANSWER_END):
        body = body.rstrip()[: -len(_ANSWER_END)]
    if not block.opened.indent:
        return body
    return re.sub(rf"^[ \t]{{1,{block.opened.indent}}}", "", body, flags=re.MULTILINE)


def _looks_like(text: str, language: str) -> bool:
    lines = [line[:200] for line in text.split("\n", _MAX_LINES)[:_MAX_LINES] if line.strip()]
    if not lines or lines[0].lstrip().startswith(_NO_CODE):
        return False
    shape = _PYTHON_LINE if language == "python" else _BRACED_LINE
    return any(shape.match(line) for line in lines)
