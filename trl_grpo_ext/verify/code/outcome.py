"""What a program is tested with, and how one of its tests went."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar, cast

from trl_grpo_ext.errors import DataError, SandboxError
from trl_grpo_ext.sandbox.backend import Sandbox
from trl_grpo_ext.sandbox.jobs import Called, Ran, Run, Tested
from trl_grpo_ext.verdict import VerdictKind
from trl_grpo_ext.verify.code.case import Case
from trl_grpo_ext.verify.code.options import CodeOptions
from trl_grpo_ext.verify.code.text import plain, quoted


ENDINGS = {
    "raised": "it raised an exception",
    "exited": "it ended its process",
    "timeout": "out of time",
    "memory": "out of memory",
    "output": "it printed or returned too much, or something that is no plain data",
    "missing": "the function is not there",
}
_KINDS: dict[str, VerdictKind] = {"timeout": "timeout", "memory": "memory"}
_NOT_COMPILED = ("SyntaxError", "IndentationError", "TabError", "CompileError")
_Result = TypeVar("_Result", Ran, Called, Tested)


@dataclass(frozen=True)
class Program:
    """
    A program that is to be judged.

    Args:
        answer (`str`):
            The program as written, shortened.
        source (`str`):
            The program as it is run.
        case ([`Case`]):
            Its tests.
        options ([`CodeOptions`]):
            The conventions.
    """

    answer: str
    source: str
    case: Case
    options: CodeOptions

    @property
    def tolerance(self) -> float | None:
        stated = self.case.float_tolerance
        return self.options.float_tolerance if stated is None else stated

    @property
    def until_failure(self) -> bool:
        """Whether nothing is earned after the first failure."""
        return self.options.credit == "all"


@dataclass(frozen=True)
class Outcome:
    """
    How one test went.

    Args:
        score (`float`):
            1.0 if it passed.
        kind (`str`, *optional*, defaults to `"wrong"`):
            That of a verdict on this test alone.
        reason (`str`, *optional*, defaults to `""`):
            What was given, what was expected and what came, if it did not pass.
    """

    score: float
    kind: VerdictKind = "wrong"
    reason: str = ""


PASSED = Outcome(1.0, "correct")
Outcomes = Generator[Outcome, None, None]


def failed(result: Ran | Called | Tested, where: str) -> Outcome:
    """
    The outcome of a test that did not come to its end.

    Raises:
        [`~errors.DataError`]: if the tests cannot be run.
    """
    note = plain(result.note)
    if result.ended == "unusable":
        raise DataError(f"the tests cannot be run ({note or 'no reason was given'}); mend or drop the task")
    kind = _KINDS.get(result.ended, "wrong")
    if result.ended == "raised" and note.startswith(_NOT_COMPILED):
        kind = "malformed"
    told = note if result.ended == "raised" and note else f"{ENDINGS[result.ended]}{': ' if note else ''}{note}"
    return Outcome(0.0, kind, told if note.startswith("assert ") else f"{where}: {told}")


def each(results: Iterator[_Result], total: int) -> Generator[_Result, None, None]:
    """
    The results of a job, which is ended when no more of them are wanted.

    Raises:
        [`~errors.SandboxError`]: if they are too few, and nothing tells why.
    """
    count, all_well = 0, True
    # The protocol of sandboxes calls them iterators that may be closed, for which there is no type but this.
    with closing(cast("Generator[_Result, None, None]", results)) as running:
        for result in running:
            count, all_well = count + 1, all_well and result.ended == "ok"
            yield result
            if count == total:
                return
    if all_well:
        raise SandboxError(f"the sandbox gave {count} results for {total} tests, and no reason")


def runs(program: Program, box: Sandbox) -> Generator[Ran, None, None]:
    """How the program runs on the input of each test."""
    case = program.case
    job = Run(program.source, tuple(test.given for test in case.tests), case.language, case.limits)
    return each(box.run(job), len(case.tests))


def told_input(given: str) -> str:
    """An input, in short."""
    return f"input {quoted(given.rstrip())}"
