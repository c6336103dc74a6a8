"""docs/moving_from_math_verify.md: where verdicts change for those who come from math-verify or TRL's accuracy_reward.

python docs/moving_from_math_verify.py            # print the page, with the verdicts of others that it has
python docs/moving_from_math_verify.py --write    # ask the installed math-verify and TRL, and write it
"""

import json
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from trl_grpo_ext.verify.math import verify_math_batch


PAGE = Path(__file__).parent / "moving_from_math_verify.md"
MADE_BY = "<!-- made by docs/moving_from_math_verify.py: change that, then run it with --write -->"
SLOW = 2.0  # seconds that are worth a word
LIMIT = 10.0  # seconds that another judge gets for a pair; math-verify gives itself five for each of its steps
_START = 120.0  # and to be imported


@dataclass(frozen=True)
class Pair:
    """
    A gold and a final answer on which the judges differ.

    Args:
        gold (`str`):
            The reference, as datasets hold it.
        answer (`str`):
            The final answer; it is judged in a box.
        right (`bool`):
            Whether the answer is right.
        why (`str`):
            What makes the verdicts differ.
    """

    gold: str
    answer: str
    right: bool
    why: str

    @property
    def completion(self) -> str:
        """What the judges are given."""
        return f"The final answer is $\\boxed{{{self.answer}}}$."


def _pairs(*rows: tuple[str, str, bool, str]) -> list[Pair]:
    return [Pair(*row) for row in rows]


CHANGES = {
    "Golds as datasets hold them": _pairs(
        (r"3\sqrt{13}", r"3\sqrt{13}", True, "a gold without `$` is LaTeX, too"),
        (r"3\sqrt{13}", "3", False, "a gold without `$` is LaTeX, too"),
        ("x^2+1", "1+x^2", True, "a gold without `$` is LaTeX, too"),
        ("(1,2)", "(1,2)", True, "a gold without `$` is LaTeX, too"),
        (r"\sqrt{2}", r"2^{1/2}", True, "a gold without `$` is LaTeX, too"),
        (r"50\%", "0.5", True, "a gold without `$` is LaTeX, too"),
        (r"\pm 2021", "2021", False, "a gold without `$` is LaTeX, too: both signs have to be there"),
        ("x = 5", "y = 5", False, "a gold without `$` is LaTeX, too: the name counts"),
        ("3x - y + 13 = 0", "3x + 4y + 14 = 0", False, "a gold without `$` is LaTeX, too: it is an equation"),
    ),
    "Wrong answers that were paid": _pairs(
        ("0.0000001", "0.0000002", False, "small numbers are different numbers"),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False, "small numbers are different numbers"),
        (r"\sqrt{2} \cdot 10^{-20}", r"\sqrt{3} \cdot 10^{-20}", False, "small numbers are different numbers"),
        (r"\frac{1}{3}", "0.3333333", False, "a decimal is exact, up to float noise; `tolerance` forgives more"),
        ("101_2", "101_3", False, "the base counts"),
        (r"5\text{ cm}", r"5\text{ m}", False, "a different unit is wrong"),
        (r"5\text{ m/s}", r"5\text{ km/h}", False, "a different unit is wrong"),
        ("1:2:3", "1:3:2", False, "the order in a ratio counts"),
        ("5", "x^2=5", False, "an equation is no value"),
        ("f'(x)", "f''(x)", False, "primes count"),
    ),
    "Right answers that were refused": _pairs(
        (r"\sqrt{2}", "√2", True, "unicode is read"),
        (r"\frac{1}{2}", "½", True, "unicode is read"),
        (r"3 \times 10^5", "3×10⁵", True, "unicode is read"),
        (r"90^\circ", "90°", True, "unicode is read"),
        (r"\infty", "∞", True, "unicode is read"),
        ("300000000", "3e8", True, "scientific notation is read"),
        (r"\frac{71}{6}", "11 5/6", True, "mixed numbers are read"),
        (r"0.\overline{3}", r"\frac{1}{3}", True, "repeating decimals are read"),
        ("10000", r"10\,000", True, "a thin space separates thousands"),
        ("10", "10.", True, "a full stop ends an answer"),
        ("B", "B.", True, "a choice is its letter"),
        ("B", "(B) 5", True, "the text of the option may follow"),
        ("1:2:3", "2:4:6", True, "ratios are equal up to a factor"),
        ("(1, 2)", r"\langle 1, 2 \rangle", True, "angle brackets are brackets"),
        ("(1, 2)", r"\bigl(1, 2\bigr)", True, "sizes of brackets do not count"),
        ("5", r"\color{red}{5}", True, "colours and fonts do not count"),
        (r"\{x \mid x > 2\}", r"(2, \infty)", True, "set-builder notation is read"),
        (r"\sqrt{-1}", "i", True, "i is the imaginary unit"),
        (r"n\pi, n \in \mathbb{Z}", r"k\pi, k \in \mathbb{Z}", True, "the name of a parameter does not count"),
    ),
    "Answers that take too long": _pairs(
        ("5", "5^{5^{5^{5^{5}}}}", False, "the size of a number is looked at before it is computed"),
        ("1", "9^{9^{9^{9}}}+1", False, "the size of a number is looked at before it is computed"),
        (
            "7",
            r"\frac{5^{\left(5^{\left(5^{\left(5^5\right)}\right)} - 4\right)} - 5}{16}",
            False,
            "the size of a number is looked at before it is computed",
        ),
    ),
}

INTRODUCTION = """# Moving from math-verify or `accuracy_reward`

```python
from trl_grpo_ext import verify_math

verify(parse(f"${{gold}}$"), parse(completion))  # before, with math-verify
verify_math(gold, completion).value == 1.0  # after
```

In a trainer, `reward_funcs=["math"]` takes the place of `reward_funcs=[accuracy_reward]`: in this package's trainer,
or as `trl_grpo_ext.rewards.math_reward` in TRL's own. The column of golds may be called `answer` or `solution`.

What changes besides verdicts:

- **Threads.** math-verify limits its time by signals, which exist in the main thread only; elsewhere it has to be told
  to do without a limit. `verify_math` works in any thread and process: symbolic work is done in a worker that is
  killed when it takes too long.
- **A gold that cannot be read** is `None`, as in `accuracy_reward`; `trl-grpo-ext validate` finds it before the run.
- **Reasons.** A verdict says what was read and why it is right or wrong, and the reward logs it.
- **Conventions are options**: see [Maths answers](math_answers.md).

## Where verdicts change

Every answer was judged in a box, here with the default options, by math-verify with the gold in `$…$`, and by
`accuracy_reward` with the gold as it stands, whose `None` is “skipped” in the tables. Seconds are given from {slow}
up. Pairs on which all agree are not listed: they are most. Versions: math-verify {math_verify}, TRL {trl}.
"""


def ours() -> dict[Pair, str]:
    """Our verdicts; that they are right is checked."""
    pairs = [pair for group in CHANGES.values() for pair in group]
    verdicts = verify_math_batch([pair.gold for pair in pairs], [pair.completion for pair in pairs])
    for pair, verdict in zip(pairs, verdicts, strict=True):
        if verdict.value != float(pair.right):
            raise SystemExit(f"gold {pair.gold!r}, answer {pair.answer!r}: judged {verdict.kind} ({verdict.reason})")
    return {pair: verdict.kind for pair, verdict in zip(pairs, verdicts, strict=True)}


def page(theirs: dict[str, list[str]], versions: dict[str, str]) -> str:
    """
    The page, as it is to be today.

    Args:
        theirs (`dict[str, list[str]]`):
            The verdicts of math-verify and of accuracy_reward, by `key` of the pair.
        versions (`dict[str, str]`):
            The versions that gave them.
    """
    judged = ours()
    for pair, verdict in judged.items():
        if {*theirs[key(pair)], verdict} == {verdict}:
            raise SystemExit(f"all agree on gold {pair.gold!r}, answer {pair.answer!r}; take it out")
    parts = [MADE_BY, INTRODUCTION.format(**versions, slow=f"{SLOW:g}")]
    for title, pairs in CHANGES.items():
        rows = ["| gold | answer | math-verify | accuracy_reward | here | why |", "|---|---|---|---|---|---|"]
        rows += [f"| {key(pair)} | {' | '.join(theirs[key(pair)])} | {judged[pair]} | {pair.why} |" for pair in pairs]
        parts.append(f"### {title}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def key(pair: Pair) -> str:
    """The first two cells of the row of a pair."""
    return " | ".join(f"`{text}`".replace("|", "\\|") for text in (pair.gold, pair.answer))


def read_page(text: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The verdicts of others that a page has, and the versions that gave them."""
    rows = re.findall(r"^\| (`.*` \| `.*`) \| ([^|`]+) \| ([^|`]+) \| [^|`]+ \|", text, re.MULTILINE)
    found = re.search(r"Versions: math-verify (\S+), TRL (\S+)\.$", text, re.MULTILINE)
    if not found:
        raise SystemExit("the page does not say which versions it is about; write it anew with --write")
    return {cells: verdicts for cells, *verdicts in rows}, {"math_verify": found[1], "trl": found[2]}


def ask_others(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """Ask the installed math-verify and TRL, in a process that is killed when it hangs."""
    others = Others()
    try:
        return {key(pair): [others.ask(judge, pair.gold, pair.completion) for judge in JUDGES] for pair in pairs}
    finally:
        others.kill()


class Others:
    """The process in which other judges work; it is started when it is needed, and anew after it was killed."""

    def __init__(self):
        self._process: subprocess.Popen | None = None

    def ask(self, judge: str, gold: str, said: str) -> str:
        """The verdict of a judge in `JUDGES`, or that there was none in time."""
        process = self._process or self._start()
        started = time.perf_counter()
        process.stdin.write(json.dumps({"judge": judge, "gold": gold, "said": said}) + "\n")
        verdict = _line(process, LIMIT)
        seconds = time.perf_counter() - started
        if not verdict:
            self.kill()
            return f"none in {LIMIT:g} s"
        return verdict if seconds < SLOW else f"{verdict}, after {seconds:.0f} s"

    def _start(self) -> subprocess.Popen:
        command = [sys.executable, __file__, "--judge"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        if _line(self._process, _START) != "ready":
            raise SystemExit("math-verify or TRL cannot be imported")
        return self._process

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _line(process: subprocess.Popen, seconds: float) -> str:
    """The next line of a process; empty if there is none in time, or the process ended."""
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().strip() if ready else ""


def _math_verify(gold: str, said: str) -> str:
    from math_verify import parse, verify

    return "correct" if verify(parse(f"${gold}$"), parse(said)) else "wrong"


def _accuracy_reward(gold: str, said: str) -> str:
    from trl.rewards import accuracy_reward

    (reward,) = accuracy_reward([[{"role": "assistant", "content": said}]], [gold])
    return {None: "skipped", 1.0: "correct", 0.0: "wrong"}[reward]


JUDGES = {"math-verify": _math_verify, "accuracy_reward": _accuracy_reward}


def judge_lines() -> None:
    """What the other process does: a verdict for each line."""
    for judge in JUDGES.values():
        judge("1", "$1$")
    print("ready", flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            verdict = JUDGES[question["judge"]](question["gold"], question["said"])
        except Exception as error:  # what another judge raises is its verdict
            verdict = type(error).__name__
        print(verdict, flush=True)


def main(arguments: list[str]) -> None:
    if arguments == ["--judge"]:
        judge_lines()
    elif arguments == ["--write"]:
        theirs = ask_others(pair for pairs in CHANGES.values() for pair in pairs)
        versions = {"math_verify": version("math-verify"), "trl": version("trl")}
        PAGE.write_text(page(theirs, versions), encoding="utf-8")
    else:
        print(page(*read_page(PAGE.read_text(encoding="utf-8"))), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
