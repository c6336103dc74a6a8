"""The pages of docs/advantages, made from the docstrings and signatures of the entries.

python docs/advantages.py            # print them
python docs/advantages.py --write    # write them
"""

import inspect
import re
import sys
import textwrap
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from trl_grpo_ext.advantages import FAMILIES, bind_params
from trl_grpo_ext.advantages.estimation import Estimator
from trl_grpo_ext.advantages.inputs import INPUTS
from trl_grpo_ext.cli.listing import needs, summary


FOLDER = Path(__file__).parent / "advantages"
MADE_BY = "<!-- made by docs/advantages.py: change the docstrings, then run it with --write -->"

# Which of the entries other libraries have, as read in their code and documentation on this day. A note says where
# theirs is called otherwise or computes something else.
COMPARED_ON = "2026-12-01"
ELSEWHERE: dict[str, dict[str, str]] = {
    "TRL 1.16.0": {
        "grpo": "",
        "dr_grpo": '`scale_rewards="none"`',
        "ppo_lite": '`scale_rewards="batch"`',
        "rloo": "`RLOOTrainer`",
        "gdpo": '`multi_objective_aggregation="normalize_then_sum"`',
        "shape/dapo_overlong": "the reward `get_soft_overlong_punishment`",
        "kl/k1": "in the reward of `RLOOTrainer`",
        "kl/k3": "in the loss",
    },
    "verl 0.9.1": {
        "grpo": "adds 1e-6",
        "dr_grpo": "`norm_adv_by_std_in_grpo=False`",
        "rloo": "",
        "remax": "",
        "reinforce_pp": '`reinforce_plus_plus`; variance as in `var_mode="inside"`',
        "reinforce_pp_baseline": '`reinforce_plus_plus_baseline`; variance as in `var_mode="inside"`',
        "opo": "",
        "gpg": "its alpha counts scores other than 0, not live groups",
        "best_minus_second": "`grpo_passk`",
        "otb": "`handle_zero_tail` is on by default",
        "gdpo": "whitens over tokens",
        "select/dapo_dynamic": "in verl-recipe",
        "shape/dapo_overlong": "keeps falling beyond the maximum length",
        "kl/k1": "clamped",
        "kl/k2": "clamped",
        "kl/k3": "clamped",
    },
    "ms-swift 4.6.0": {
        "grpo": "a missing reward counts 0",
        "dr_grpo": "a missing reward counts 0",
        "ppo_lite": "a missing reward counts 0",
        "rloo": "a missing reward counts 0",
        "reinforce_pp": "by completion, sample deviation + 1e-4",
        "reinforce_pp_baseline": "by completion, sample deviation + 1e-4",
        "rlsd": "",
        "gdpo": "adds 1e-8",
    },
    "OpenRLHF 0.11.2": {
        "grpo": "`group_norm`; adds 1e-9",
        "dr_grpo": "",
        "rloo": "",
        "reinforce_pp": "`reinforce`",
        "reinforce_pp_kl": "`reinforce`",
        "reinforce_pp_baseline": "`reinforce_baseline`",
    },
    "ROLL": {
        "grpo": "adds 1e-6",
        "ppo_lite": "`reward_norm` with the mean of the group and the deviation of the batch; adds 1e-6",
        "remax": "",
        "gigpo": "",
        "select/pass_rate_window": "`difficulty_mask`",
    },
    "NeMo-RL": {
        "grpo": "",
        "rloo": "the leave-one-out option of its GRPO",
        "reinforce_pp": "",
        "reinforce_pp_baseline": "",
        "gdpo": "leave-one-out baselines, neither weights nor eps",
    },
    "SkyRL 0.4": {"grpo": "", "rloo": "", "reinforce_pp": "", "maxrl": ""},
    "Trinity-RFT 0.6.0": {
        "grpo": "",
        "rloo": "",
        "remax": "",
        "reinforce_pp": "",
        "opmd": "",
        "asymre": "",
        "unlikeliness": "ranks by the mean log-probability of the tokens",
        "gigpo": "compares states over the whole batch; gamma is 1 by default",
    },
}

KINDS = {
    "shape/": "a reward shaper, for `reward_shaping`",
    "select/": "a selector: 1 to keep a completion, 0 to drop it",
    "kl/": "a KL estimator, for `kl_estimator`",
}


FIGURE_TEXT = (
    "Advantage of a right and of a wrong answer against the pass rate of the group, one panel for each estimator"
)
FIGURE_CAPTION = """\
What a right answer (blue) and a wrong one (orange, dashed) get, against the share of right answers in their group,
for every estimator that gives one number for each completion. Rewards are 0 or 1, a group has 16 completions,
parameters have their defaults. The dots are groups in which all answers agree: they lie on the zero line where
such a group teaches nothing. White panels share one of two axes, up to 1 and up to 4; a tinted panel has an axis
of its own.

What one sees:

- **Subtract the mean** (`dr_grpo`, `rloo`, `opo`, `canon`) and the lines are straight, 1 - p and -p: the rarer of
  the two outcomes is worth more.
- **Divide by the standard deviation** (`grpo` and all that build on it) and both ends bend outwards: one right
  answer of 16 gets 3.75 instead of 0.94, and so does, downwards, one wrong answer of 16.
- **Divide by the mean, or take an exponential** (`maxrl`, `mapo`, `entropic`, `rs_grpo`) and only the hard end
  bends: a rare success gets many times what a common one does, a rare failure little more than a common one.
- **Train for the best of k** (`passk_training`, `pkpo`, `best_minus_second`) and next to nothing is left to learn
  once many answers are right. `max_at_k` has no baseline, so wrong answers that share a subset with a right one go
  up too.
- **Take the baseline from elsewhere, or none** (`remax`, `pvpo`, `spo`, `reinforce_pp`, `psr`, `nsr`,
  `w_reinforce`) and the lines are flat, and groups in which all answers agree can move too.
- **Compare with a quantile or the median** (`qae`, `mc_grpo`) and only one of the two outcomes moves at a time.

What the picture does not show: lengths, entropies, likelihoods, the metric and the strata are equal for all
completions, so `opo` and `canon` look like `dr_grpo`, `edge_eda`, `unlikeliness` and `stratified` like `grpo`, and
`gfpo` keeps four completions at random. Whatever comes from outside of the group (the greedy completion, the
reference policy, the tracker, the anchor) says a pass rate of one half, and `dcpo_sas` sees each prompt for the
first time. `mo_grpo` and `gdpo` have a single reward. Estimators that look at the batch see one that holds every
number of right answers equally often. Where the order of the completions matters (`krpo`, `gopo_rank`, `pods`,
`gfpo`) the lines are means over random orders, and over dropped completions too, which count 0: `gopo_rank` gives
a group in which all answers agree values from 2 to -2, whose mean is the 0 of the dots."""


@dataclass
class Parts:
    """A docstring, taken apart."""

    body: list[str] = field(default_factory=list)
    paper: str = ""
    source: str = ""
    arguments: dict[str, tuple[str, str]] = field(default_factory=dict)
    returns: str = ""
    raises: str = ""


def take_apart(function) -> Parts:
    """Take the docstring of an entry apart; paragraphs become markdown."""
    parts = Parts()
    for paragraph in inspect.getdoc(function).split("\n\n")[1:]:
        head, _, rest = paragraph.partition("\n")
        if head == "Args:":
            parts.arguments = _arguments(rest)
        elif head == "Returns:":
            parts.returns = _prose(rest)
        elif head == "Raises:":
            parts.raises = _prose(rest)
        elif head.startswith("Paper: "):
            parts.paper = head.removeprefix("Paper: ").rstrip(".")
        elif head.startswith("Source: "):
            parts.source = _prose(paragraph.removeprefix("Source: "))
        elif paragraph.startswith("    "):
            parts.body.append(f"```\n{textwrap.dedent(paragraph)}\n```")
        else:
            parts.body.append(re.sub(r"^(Helps|Breaks)( when)?\b", r"**\g<0>**", _prose(paragraph)))
    return parts


def _prose(text: str) -> str:
    text = re.sub(r"\[`~?([\w.]+)`\]", r"`\1`", " ".join(text.split()))
    # Outside of code a star would begin emphasis, and `<` a tag.
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else piece.replace("*", "\\*").replace("<", "&lt;") for piece in pieces
    )


def _arguments(text: str) -> dict[str, tuple[str, str]]:
    """`{name: (type, meaning)}`."""
    found = re.split(r"^    (\w+) \((.*)\):\n", text, flags=re.MULTILINE)[1:]
    return {
        name: (type_, _prose(meaning))
        for name, type_, meaning in zip(found[::3], found[1::3], found[2::3], strict=True)
    }


def family_page(family: str) -> str:
    """The page of a family: all its entries."""
    title = import_module(f"trl_grpo_ext.advantages.{family}").__doc__.split("\n\n")[0]
    entries = "\n\n".join(_entry(bind_params(name)) for name in FAMILIES[family])
    return f"# {family}\n\n{MADE_BY}\n\n{_prose(title)}\n\n[All entries](README.md)\n\n{entries}\n"


def _entry(estimator: Estimator) -> str:
    parts = take_apart(estimator.function)
    facts = {
        "Kind": next((kind for prefix, kind in KINDS.items() if estimator.name.startswith(prefix)), ""),
        "Level": f"one number for each {estimator.level}",
        "Returns": parts.returns,
        "Raises": parts.raises,
        "Paper": f"[{parts.paper.rpartition('/')[2]}]({parts.paper})" if parts.paper else "",
        "Source": parts.source,
    }
    return "\n\n".join(
        block
        for block in (
            f"## `{estimator.name}`",
            _prose(summary(estimator.function)) + ".",
            *parts.body,
            "\n".join(f"- **{name}**: {text}" for name, text in facts.items() if text),
            _input_table(estimator, parts),
            _parameter_table(estimator, parts),
        )
        if block
    )


def _input_table(estimator: Estimator, parts: Parts) -> str:
    rows = ["| input | layout | what it is | where it comes from |", "|---|---|---|---|"]
    layout = () if estimator.layout is None else (estimator.layout,)
    for name in (*layout, *estimator.inputs, *estimator.optional_inputs):
        type_, meaning = parts.arguments[name]
        shape = re.search(r"of shape `(.*?)`", type_)
        shown = f"`{name}`" + (", optional" if name in estimator.optional_inputs else "")
        rows.append(f"| {shown} | {f'`{shape[1]}`' if shape else 'any'} | {_cell(meaning)} | {_origin(name)} |")
    return "\n".join(rows)


def _origin(name: str) -> str:
    if name in ("rewards", "components"):
        return "the rewards"
    if name == "ref_logp":
        return "the trainer, with `beta` above 0"
    item = INPUTS[name]
    if item.origin == "step_reward":
        return "a step reward"
    if item.origin == "user":
        return "you: `advantage_inputs`, or a column of the dataset"
    return "; ".join(["the trainer", *item.meaning.split("; ")[1:]]) + (f" ({item.cost})" if item.cost else "")


def _parameter_table(estimator: Estimator, parts: Parts) -> str:
    parameters = inspect.signature(estimator.function).parameters.values()
    rows = [
        f"| `{p.name}` | `{p.default!r}` | {_cell(parts.arguments[p.name][1])} |"
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return "\n".join(["| parameter | default | what it does |", "|---|---|---|", *rows]) if rows else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def link(name: str, folder: str = "") -> str:
    """A link to an entry, from a page from which `folder` leads to docs/advantages."""
    family = next(family for family, names in FAMILIES.items() if name in names)
    return f"[`{name}`]({folder}{family}.md#{name.replace('/', '')})"


def entry_table() -> str:
    """One row for each entry: name, level, what it needs, family, one line, paper."""
    rows = [
        "| name | a number for each | needs beside rewards | family | what it is | paper |",
        "|---|---|---|---|---|---|",
    ]
    for family, names in FAMILIES.items():
        for name in names:
            estimator = bind_params(name)
            paper = take_apart(estimator.function).paper
            reference = f"[{paper.rpartition('/')[2]}]({paper})" if paper else "–"
            line = _cell(_prose(summary(estimator.function)))
            cells = (
                link(name),
                estimator.level,
                needs(estimator) or "–",
                f"[{family}]({family}.md)",
                line,
                reference,
            )
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def elsewhere_table() -> str:
    """Which of the entries other libraries have, and the notes."""
    notes: dict[str, int] = {}
    rows = [f"| entry | {' | '.join(ELSEWHERE)} |", f"|---|{':-:|' * len(ELSEWHERE)}"]
    for name in (name for names in FAMILIES.values() for name in names):
        cells = []
        for library, entries in ELSEWHERE.items():
            note = f"{library.split()[0]}: {entries[name]}" if entries.get(name) else ""
            number = f" {notes.setdefault(note, len(notes) + 1)}" if note else ""
            cells.append(f"✓{number}" if name in entries else "")
        if any(cells):
            rows.append(f"| {link(name)} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *(f"{number}. {note}" for note, number in notes.items())])


def index_page() -> str:
    """The index of all entries."""
    everything = [name for names in FAMILIES.values() for name in names]
    shapers, selectors, kl = (sum(name.startswith(prefix) for name in everything) for prefix in KINDS)
    found = {name for entries in ELSEWHERE.values() for name in entries}
    return f"""# Advantages

{MADE_BY}

{len(everything)} entries: {len(everything) - shapers - selectors - kl} advantage estimators, and for use beside them
{shapers} reward shapers, {selectors} selectors and {kl} estimators of the KL divergence.
Each has its formula, when it helps, when it breaks, its parameters and what was read to write it on the page of its
family. In a recipe or in `GroupRelativeConfig` an estimator is `advantage: NAME` with `advantage_kwargs: {{…}}`, in
Python `estimate(NAME, rewards)`; [your own](your-own.md) works the same way.

```
trl-grpo-ext list advantages --long                      # this list in the terminal
trl-grpo-ext advantages compare --rewards 1,0,1,0        # what they make of the same rewards
trl-grpo-ext advantages compare --pass-rates             # how many groups will be all right or all wrong
```

## All entries

{entry_table()}

Inputs in brackets are optional.

## What a success and a failure are worth

![{FIGURE_TEXT}](pass_rate.png)

{FIGURE_CAPTION}

## Who else has them

What eight libraries had on {COMPARED_ON}; the headings say which version was read, where it was noted. A number points
to a note. None of them was found to have the other {len(everything) - len(found)} entries.

{elsewhere_table()}
"""


INPUTS_BEGIN, INPUTS_END = "<!-- supplied inputs: made by docs/advantages.py -->", "<!-- end of supplied inputs -->"


def with_inputs(text: str) -> str:
    """Return the text of your-own.md with the table of inputs of today between its markers."""
    head, _, rest = text.partition(INPUTS_BEGIN)
    rows = ["| input | level | what it is | who supplies it | what that costs |", "|---|---|---|---|---|"]
    rows += [
        f"| `{name}` | {item.level} | {_cell(item.meaning)} | {item.origin} | {item.cost or '–'} |"
        for name, item in INPUTS.items()
    ]
    table = "\n".join(rows)
    return f"{head}{INPUTS_BEGIN}\n{table}\n{INPUTS_END}{rest.partition(INPUTS_END)[2]}"


def pages() -> dict[str, str]:
    """File name to content, of all pages."""
    made = {"README.md": index_page(), **{f"{family}.md": family_page(family) for family in FAMILIES}}
    return {**made, "your-own.md": with_inputs((FOLDER / "your-own.md").read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for name, text in pages().items():
        if sys.argv[1:] == ["--write"]:
            (FOLDER / name).write_text(text, encoding="utf-8")
        else:
            print(f"==> {name}\n{text}")
