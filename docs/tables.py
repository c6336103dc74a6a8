"""The tables of the README that list what is registered: made from the registries, never by hand.

python docs/tables.py            # print them
python docs/tables.py --write    # put them between their markers in README.md
"""

import inspect
import sys
from importlib import import_module
from pathlib import Path

from trl_grpo_ext.advantages import FAMILIES
from trl_grpo_ext.rewards import REWARDS


README = Path(__file__).parents[1] / "README.md"


def advantage_table() -> str:
    """One row for each family of advantage estimators: what they are, and names with links to their pages."""
    rows = ["| family | what it is | names |", "|---|---|---|"]
    for family, names in FAMILIES.items():
        page = f"docs/advantages/{family}.md"
        links = ", ".join(f"[`{name}`]({page}#{name.replace('/', '')})" for name in names)
        what = _summary(import_module(f"trl_grpo_ext.advantages.{family}"))
        rows.append(f"| [{family}]({page}) | {what} | {links} |")
    return "\n".join(rows)


def reward_table() -> str:
    """One row for each reward: name, what it is, parameters, how it enters the sum by default."""
    rows = ["| name | what it is | parameters | default |", "|---|---|---|---|"]
    for name in REWARDS.names():
        reward = REWARDS.get(name)
        default = reward.default_mode + (", required" if reward.default_required else "")
        rows.append(f"| `{name}` | {_summary(reward)} | {_keyword_parameters(reward)} | {default} |")
    return "\n".join(rows)


def _summary(thing) -> str:
    return " ".join(inspect.getdoc(thing).split("\n\n")[0].split()).rstrip(".").replace("|", "\\|")


def _keyword_parameters(thing) -> str:
    parameters = [p for p in inspect.signature(thing).parameters.values() if p.default is not inspect.Parameter.empty]
    return ", ".join(f"`{p.name}={p.default!r}`" for p in parameters) or "–"


TABLES = {"advantages": advantage_table, "rewards": reward_table}


def with_tables(text: str) -> str:
    """Return `text` with what stands between each pair of table markers replaced by the table of today."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: made by docs/tables.py -->", f"<!-- end of {name} -->"
        head, found, rest = text.partition(begin)
        if not found or end not in rest:
            raise SystemExit(f"README.md lacks the markers {begin!r} and {end!r}")
        text = f"{head}{begin}\n{make()}\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(*(f"{name}\n{make()}\n" for name, make in TABLES.items()), sep="\n")
