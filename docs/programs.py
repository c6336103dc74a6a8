"""docs/programs.md: how programs are judged, with verdicts computed in the local sandbox as the page is made.

python docs/programs.py            # print the page
python docs/programs.py --write    # write it
"""

import inspect
import json
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from trl_grpo_ext import sandbox
from trl_grpo_ext.cli.option_flags import described_arguments
from trl_grpo_ext.rewards import CodeReward
from trl_grpo_ext.sandbox import LEVELS, SANDBOXES, SandboxOptions
from trl_grpo_ext.sandbox.languages import LANGUAGES
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.tasks import list_tasks
from trl_grpo_ext.tasks.task import build_task
from trl_grpo_ext.verify import code as judge
from trl_grpo_ext.verify.code import Case, CodeOptions, fenced, verify_code


ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "programs.md"
MADE_BY = "<!-- made by docs/programs.py: change that, then run it with --write -->"
REQUIRED = "required"


@dataclass(frozen=True)
class Format:
    """
    A format of tests.

    Args:
        meaning (`str`):
            What is tested.
        case (`dict`):
            A case.
        program (`str`):
            A program that passes it.
    """

    meaning: str
    case: dict[str, Any]
    program: str


@dataclass(frozen=True)
class Example:
    """
    What a convention makes of something.

    Args:
        case (`dict`):
            The case.
        completion (`str`):
            The completion.
        shown (`tuple[str]`):
            What of it is shown, each part in a cell of its own.
        kind (`str`):
            The verdict that the convention calls for.
        options (`dict`, *optional*):
            Options under which it does.
    """

    case: dict[str, Any]
    completion: str
    shown: tuple[str, ...]
    kind: str
    options: dict[str, Any] | None = None


FORMATS = {
    "stdio": Format(
        "A whole program reads standard input and prints. Each input is run in a process of its own.",
        {"format": "stdio", "tests": [{"input": "3\n1 2 3\n", "output": "6\n"}, {"input": "1\n5\n", "output": "5\n"}]},
        "input()\nprint(sum(map(int, input().split())))",
    ),
    "function_call": Format(
        "A function, or a method of a class `Solution`, is called with arguments; what it returns is compared here.",
        {
            "format": "function_call",
            "tests": {"fn_name": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [3, [1, 2]]},
        },
        "def add(a, b):\n    return a + b",
    ),
    "asserts": Format(
        "Python statements, in order, in one namespace, about the functions of the program.",
        {"format": "asserts", "tests": ["assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'"]},
        "def add(a, b):\n    return a + b",
    ),
    "check_function": Format(
        "Python source that defines `check(candidate)`, as HumanEval has it. All of it is one test, so no share of it "
        "is paid.",
        {
            "format": "check_function",
            "entry_point": "add",
            "tests": "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n",
        },
        "def add(a, b):\n    return a + b",
    ),
}

TWO = {"format": "stdio", "tests": [{"input": "", "output": "2"}]}
GOOD, BAD = "```python\nprint(2)\n```", "```python\nprint(3)\n```"


def _text(completion: str, kind: str, **options: Any) -> Example:
    return Example(TWO, completion, (completion,), kind, options or None)


def _printed(expected: str, got: str, kind: str, **options: Any) -> Example:
    case = {"format": "stdio", "tests": [{"input": "", "output": expected}]}
    return Example(case, fenced(f"print({got!r})"), (expected, got), kind, options or None)


def _returned(expected: Any, got: str, kind: str, **options: Any) -> Example:
    case = {"format": "function_call", "tests": {"fn_name": "f", "inputs": [[]], "outputs": [expected]}}
    return Example(case, fenced(f"def f():\n    return {got}"), (json.dumps(expected), got), kind, options or None)


COMPLETIONS: dict[str, list[Example]] = {
    "The last fenced block in the language of the task is the program.": [
        _text(f"First try:\n{BAD}\nBetter:\n{GOOD}", "correct"),
        _text(f"{GOOD}\nor\n{BAD}", "wrong"),
        _text(f"{GOOD}\nOutput:\n```text\n2\n```", "correct"),
    ],
    "A block without a language counts as well, if it looks like code.": [
        _text("```\nprint(2)\n```", "correct"),
        _text(f"{GOOD}\nIt prints\n```\n2\n```", "correct"),
    ],
    "Only what follows the thinking counts; thinking that never ends leaves nothing. Option: `thinking_end`.": [
        _text(f"<think>\n{BAD}\n</think>\n{GOOD}", "correct"),
        _text(f"<think>\n{GOOD}", "no_answer"),
        _text(f"[think]\n{BAD}\n[/think]\n{GOOD}", "correct", thinking_end="[/think]"),
    ],
    "A fence is required, unless `fence` says otherwise.": [
        _text("print(2)", "no_answer"),
        _text("print(2)", "correct", fence="optional"),
    ],
}

OUTPUTS: dict[str, list[Example]] = {
    "Lines are compared in order; blank lines at the ends and the amount of blanks within a line do not matter.": [
        _printed("1 2\n3", "1  2 \n3\n\n", "correct"),
        _printed("1 2\n3", "1 2 3", "wrong"),
        _printed("1\n2", "1\n\n2", "wrong"),
    ],
    "Words are compared as text.": [
        _printed("YES", "yes", "wrong"),
        _printed("7", "07", "wrong"),
        _printed("0.50", "0.5", "wrong"),
    ],
    "With a `float_tolerance`, an expected decimal number equals what is near enough; an integer equals itself.": [
        _printed("0.50", "0.5", "correct", float_tolerance=1e-6),
        _printed("0.5", "0.5001", "wrong", float_tolerance=1e-6),
        _printed("7", "7.0", "wrong", float_tolerance=1e-6),
    ],
}

VALUES: dict[str, list[Example]] = {
    "A tuple equals a list, as JSON has no tuples; a set equals no list.": [
        _returned([1, 2], "(1, 2)", "correct"),
        _returned([1, 2], "{1, 2}", "wrong"),
    ],
    "True and false equal themselves alone; an integer equals a float of its value.": [
        _returned(1, "True", "wrong"),
        _returned(True, "'true'", "wrong"),
        _returned(6, "6.0", "correct"),
    ],
    "An expected float forgives rounding noise, or what `float_tolerance` says.": [
        _returned(0.3, "0.1 + 0.2", "correct"),
        _returned(0.3, "0.301", "wrong"),
        _returned(0.3, "0.301", "correct", float_tolerance=0.01),
    ],
}

VERDICTS = {
    "correct": ("1.0", "it passed all tests"),
    "wrong": ("0.0 or a share", "a test failed, raised an exception, ended the process or printed too much"),
    "malformed": ("0.0 or a share", "it does not compile"),
    "timeout": ("0.0 or a share", "it used up its time"),
    "memory": ("0.0 or a share", "it used up its memory"),
    "no_answer": ("0.0", "the completion holds no program"),
    "unscorable": ("`None`", "the tests cannot be used"),
    "infra_error": ("`None`", "the sandbox failed"),
}

INTRODUCTION = """# Programs

How does a program earn its reward? This page says what a task looks like, what counts as the program in a completion,
when it passes, and in what sandbox it runs. Each verdict on it was computed when the page was made.

```
trl-grpo-ext verify code --case case.json --program solution.py --explain   # one program, test by test
trl-grpo-ext validate DATASET --domain code                                 # tasks that would waste a run
trl-grpo-ext doctor                                                         # how well this machine isolates programs
```
"""

USE = """## In a run

The reward `code` pays 1.0 for a program that passes all tests of its row; `code_fraction` pays the share that passes.

```yaml
rewards:
  - {name: code, params: {sandbox: {name: local, packages: [numpy]}}}
```

```
trl grpo --model_name_or_path … --dataset_name … --reward_funcs trl_grpo_ext.rewards.code_reward
```

```python
from trl_grpo_ext import verify_code

case = {"format": "stdio", "tests": [{"input": "1", "output": "2"}]}
verdict = verify_code("```python\\nprint(2 * int(input()))\\n```", case)
```

A share is easier to collect without a program than the whole: a constant passes every test that expects it. Both
rewards are the same in TRL's synchronous and asynchronous trainers.
"""

TESTED = """\
`docker`, `podman`, `sandbox_fusion` and `piston` were tested against stand-ins only, which were written from the
documentation and the source of these programs; `ray` was tested on one node. Try them with a few programs before a
long run."""

YOUR_OWN = """\
A sandbox of your own is a class with the methods of `trl_grpo_ext.sandbox.Sandbox`. An installed package adds it by
the entry-point group `trl_grpo_ext.sandboxes`; without one, its import path is a name, too."""

ADDING = """## Adding tests to a dataset

A dataset needs a column `case` with a case in each row, best as JSON text, since tests differ in shape from row to row
and a column has one type. The column `answer` (or `solution`) may hold a program that passes. For published datasets
there are adapters, functions from a row to a case:

```python
import json

from datasets import load_dataset
from trl_grpo_ext.tasks.code import mbpp_case


def add_case(row):
    case = mbpp_case(row)
    return {"prompt": case.pop("prompt"), "case": json.dumps(case), "answer": row["code"]}


dataset = load_dataset("google-research-datasets/mbpp", split="train").map(add_case)
```

In a recipe the same datasets are tasks, which also divide them: @TASKS@. The stage `prepare` leaves out problems
whose own solution fails. Where tests import a package, as those of MBPP+ and HumanEval+ do, that stage and the rewards
need it: `sandbox: {name: local, packages: [numpy]}`.

`trl-grpo-ext validate` then runs every solution against the tests of its row, an empty program, and a few solutions of
other rows. What it finds is listed under [checking a dataset](math_answers.md#checking-a-dataset). Tests that an empty
program passes, or half of the other solutions, pay for nothing.
"""


def page() -> str:
    """The page, as it is to be today."""
    return "\n".join(
        [
            MADE_BY,
            INTRODUCTION,
            _cases(),
            "## What counts as the program\n\n" + _section(COMPLETIONS, "completion") + "\n",
            "## When a test is passed\n\nPrinted output:\n\n" + _section(OUTPUTS, "expected", "printed") + "\n",
            "Returned values:\n\n" + _section(VALUES, "expected", "returned") + "\n",
            _verdicts(),
            USE,
            _options(),
            _isolation(),
            _sandboxes(),
            _languages(),
            ADDING.replace("@TASKS@", ", ".join(f"`{name}`" for name in list_tasks() if _is_code(name))),
            _limits(),
        ]
    )


def _is_code(task: str) -> bool:
    return type(build_task(task)).__module__.startswith("trl_grpo_ext.tasks.code")


def _cases() -> str:
    parts = [
        "## Cases\n\nA case is a mapping, or its JSON text, in the column `case` of the dataset. Fields that are "
        "`null` count as absent, and other fields are not looked at.\n"
    ]
    defaults = {item.name: item.default for item in fields(Case)}
    rows = ["| field | default | what it is |", "|---|---|---|"]
    for name, meaning in described_arguments(Case).items():
        default = defaults[name]
        cell = REQUIRED if name in ("format", "tests") else f"`{json.dumps(default)}`"
        rows.append(f"| `{name}` | {cell} | {_cell(meaning)} |")
    parts.append("\n".join(rows) + "\n")
    for name, entry in FORMATS.items():
        verdict = verify_code(fenced(entry.program), entry.case)
        if verdict.kind != "correct":
            raise SystemExit(f"format {name}: its program is judged {verdict.kind} ({verdict.reason})")
        case = json.dumps(entry.case, ensure_ascii=False)
        parts.append(f"`{name}`: {entry.meaning}\n\n```json\n{case}\n```\n\n```python\n{entry.program}\n```\n")
    return "\n".join(parts)


def _section(conventions: dict[str, list[Example]], *columns: str) -> str:
    parts = []
    for rule, examples in conventions.items():
        rows = [f"| {' | '.join(columns)} | options | verdict |", "|---" * (len(columns) + 2) + "|"]
        for example in examples:
            verdict = verify_code(example.completion, example.case, options=example.options)
            if verdict.kind != example.kind:
                raise SystemExit(
                    f"{example.shown!r}: the convention says {example.kind}, the judge {verdict.kind} "
                    f"({verdict.reason})"
                )
            shown = " | ".join(map(_code, example.shown))
            options = ", ".join(f"`{name}={value!r}`" for name, value in (example.options or {}).items())
            rows.append(f"| {shown} | {options} | {verdict.kind} |")
        parts.append(f"{rule}\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _code(text: str) -> str:
    """Text as code in a cell of a table, however many backticks it has."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{mark}{space}{_cell(text)}{space}{mark}".replace("\n", "⏎")


def _cell(text: str) -> str:
    return re.sub(r"\[`~?(?:\w+\.)*(\w+)`\]", r"`\1`", text).replace("|", "\\|")


def _verdicts() -> str:
    rows = ["| verdict | value | when |", "|---|---|---|"]
    rows += [f"| `{kind}` | {value} | {when} |" for kind, (value, when) in VERDICTS.items()]
    text = (
        "`None` is no score: such a row leaves the step, or, in a stock TRL trainer, counts as not rewarded by this "
        "reward. A share is paid with `credit` `fraction` or `weighted`."
    )
    return "## Verdicts\n\n" + "\n".join(rows) + f"\n\n{text}\n"


def _options() -> str:
    rows = ["| option | default | what it does |", "|---|---|---|"]
    meanings = described_arguments(CodeReward)
    for name, parameter in inspect.signature(CodeReward).parameters.items():
        rows.append(f"| `{name}` | `{json.dumps(parameter.default)}` | {_cell(meanings[name])} |")
    command = ", ".join(f"`--{item.name}`" for item in fields(CodeOptions))
    return (
        "## Options\n\nThese are parameters of both rewards; "
        f"`verify code` and `validate --domain code` take {command} and `--sandbox`.\n\n" + "\n".join(rows) + "\n"
    )


def _isolation() -> str:
    levels = ["| level | what protects the host |", "|---|---|"]
    levels += [f"| `{name}` | {_cell(meaning)} |" for name, meaning in LEVELS.items()]
    options = ["| option | default | what it does |", "|---|---|---|"]
    meanings = described_arguments(SandboxOptions)
    for item in fields(SandboxOptions):
        options.append(f"| `{item.name}` | `{json.dumps(item.default)}` | {_cell(meanings[item.name])} |")
    return (
        "## Isolation\n\nPrograms that a model writes are untrusted. What a machine can do against them depends on "
        "its kernel and on the rights of the user; from weak to strong:\n\n" + "\n".join(levels) + "\n\n"
        "A reward whose sandbox is below its `minimum` raises when it is first called: it never runs a program with "
        "less, unless `isolation` is `best_effort`. It raises as well where the sandbox fails for every program of a "
        "batch, a compiler that is missing included; where it fails for some, these get no score and are counted in "
        "the metric `infra_frac`. `trl-grpo-ext doctor` shows the level of this machine, and each layer that is off, "
        "with the reason. [What programs may try](code_hacks.md) says what stops them, and what does not."
        "\n\nOptions of the local sandbox:\n\n"
        + "\n".join(options)
        + "\n\nWith `packages: [numpy]` programs may import NumPy as it is installed here. Name what the tasks need "
        "and no more.\n"
    )


def _sandboxes() -> str:
    rows = ["| name | what it is |", "|---|---|"]
    for name in SANDBOXES.names():
        rows.append(f"| `{name}` | {_cell(_by_name(_summary(SANDBOXES.get(name))))} |")
    tables = "\n\n".join(_sandbox_options(documented, names) for documented, names in _by_documentation().items())
    return (
        "## Where programs run\n\n`sandbox` names one of these, or is a mapping of `name` and options.\n\n"
        + "\n".join(rows)
        + f"\n\n{TESTED}\n\n{tables}\n\n{YOUR_OWN}\n"
    )


def _by_documentation() -> dict[type, list[str]]:
    """Names of sandboxes by the class that documents their options; those of the local sandbox stand elsewhere."""
    found: dict[type, list[str]] = {}
    for name in SANDBOXES.names():
        kind = SANDBOXES.get(name)
        if kind is not LocalSandbox:
            documented = next(one for one in kind.__mro__ if described_arguments(one))
            found.setdefault(documented, []).append(name)
    return found


def _sandbox_options(documented: type, names: list[str]) -> str:
    rows = ["| option | default | what it does |", "|---|---|---|"]
    meanings = described_arguments(documented)
    for name, parameter in inspect.signature(documented).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            default = REQUIRED if parameter.default is parameter.empty else f"`{json.dumps(parameter.default)}`"
            rows.append(f"| `{name}` | {default} | {_cell(meanings[name])} |")
    others = re.search(r"^    \*\*options:\n((?:        .*\n?)+)", inspect.getdoc(documented) or "", re.MULTILINE)
    if others is None:
        raise SystemExit(f"{documented.__name__} does not say which other options it takes")
    told = _by_name(" ".join(others[1].split()))
    listed = " and ".join(f"`{name}`" for name in names)
    return f"Options of {listed}:\n\n" + "\n".join(rows) + f"\n\nFurther options: {told[0].lower()}{told[1:]}"


def _by_name(text: str) -> str:
    """Text in which classes of sandboxes are called by the names of these, as the reader of the page knows them."""
    called = {SANDBOXES.get(name).__name__: name for name in SANDBOXES.names()} | {"SandboxOptions": "local"}
    return re.sub(r"\[`(\w+)`\]", lambda found: f"`{called[found[1]]}`", text)


def _languages() -> str:
    rows = ["| `language` | what has to be there |", "|---|---|", "| `python` | nothing else |"]
    rows += [f"| `{name}` | `{language.tool}` |" for name, language in LANGUAGES.items()]
    return (
        "## Languages\n\nA case may name the `language` of its programs. Those in another language than Python read "
        "and print (format `stdio`); the tool that builds or runs them has to be where programs run: on this machine, "
        "in the image of a container, on every node of a cluster. SandboxFusion and Piston bring their own.\n\n"
        + "\n".join(rows)
        + "\n\nWithout the tool, programs in that language are not judged: the verdict is `infra_error`.\n"
    )


def _summary(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _limits() -> str:
    judged, ran = _not_covered(judge), _not_covered(LocalSandbox)
    return f"## Not covered\n\nThe judge: {judged}\n\nThe local sandbox: {ran}\n"


def _not_covered(documented: ModuleType | type) -> str:
    """What a docstring says is not covered."""
    (found,) = [
        paragraph for paragraph in (inspect.getdoc(documented) or "").split("\n\n") if paragraph.startswith("Not cov")
    ]
    return " ".join(found.removeprefix("Not covered:").split())


if __name__ == "__main__":
    text = page()
    sandbox.close_sandboxes()
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
