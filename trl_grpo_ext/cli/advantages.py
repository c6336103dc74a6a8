"""`trl-grpo-ext advantages compare`: what advantage estimators make of the same rewards, side by side."""

import json
import statistics
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.errors import ConfigError, ExtError
from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trl_grpo_ext.advantages.estimation import Estimator

Groups = list[list[float | None]]

# Beside raw and normalised they fill 80 columns: the unbiased baseline, what TRL does, the mean as the scale, and one
# that moves an all-wrong group.
DEFAULT_VARIANTS = ("rloo", "grpo", "maxrl", "ngrpo")
GROUP_SIZES = (2, 4, 8, 16, 32)
PASS_RATES = tuple(step / 20 for step in range(1, 20))
LARGEST_REWARD = 1e100  # squares of larger ones leave the range of floats

_EPILOG = """examples:
  trl-grpo-ext advantages compare --rewards 1,0,1,0
  trl-grpo-ext advantages compare --rewards 1,0,0,0 --rewards 1,1,1,1 --variants rloo,ppo_lite,js_shrinkage
  trl-grpo-ext advantages compare --rewards 1,0,none --variants pkpo --params '{"pkpo": {"k": 2}}'
  trl-grpo-ext advantages compare --rewards 1,0,1,0 --variants all
  trl-grpo-ext advantages compare --pass-rates

`trl-grpo-ext list advantages --long` says what each estimator is and what it needs.
"""


def main(command: str, argv: list[str]) -> int:
    """Print the comparison; return 0."""
    parser = _parser(command)
    arguments = parser.parse_args(_joined(argv))
    if not arguments.rewards and (arguments.variants or arguments.params or not arguments.pass_rates):
        parser.error("the following arguments are required: --rewards")
    groups = [parse_rewards(text) for text in arguments.rewards]
    params = _parse_params(arguments.params)

    from rich.console import Console

    console = Console(highlight=False)
    if groups:
        _show_comparison(console, groups, arguments.variants, params)
    if arguments.pass_rates:
        _show_pass_rates(console, len(groups[0]) if groups else None)
    return 0


def _parser(command: str) -> Parser:
    from argparse import RawDescriptionHelpFormatter

    parser = Parser(
        f"trl-grpo-ext {command}",
        description="Show what advantage estimators make of the same rewards.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("compare",), help="What to do.")
    parser.add_argument(
        "--rewards",
        action="append",
        default=[],
        metavar="R1,R2,…",
        help="Rewards of one group; none, null or nan for a completion that could not be judged. Give it again for "
        "each further group of the batch.",
    )
    parser.add_argument(
        "--variants",
        metavar="NAME,…",
        help=f"Estimators to show, or `all` that need rewards only. {','.join(DEFAULT_VARIANTS)} by default.",
    )
    parser.add_argument("--params", metavar="JSON", help="Parameters that differ from the defaults, by estimator.")
    parser.add_argument(
        "--pass-rates",
        action="store_true",
        help="Show the expected share of groups whose rewards are all equal, by pass rate and group size.",
    )
    return parser


def _joined(argv: list[str]) -> list[str]:
    """Write `--rewards -1,1` as `--rewards=-1,1`: argparse would take the value for an option."""
    joined: list[str] = []
    for argument in argv:
        if joined and joined[-1] == "--rewards":
            joined[-1] = f"--rewards={argument}"
        else:
            joined.append(argument)
    return joined


def parse_rewards(text: str) -> list[float | None]:
    """
    Read the rewards of a group, `"1,0,none"`.

    Raises:
        [`~errors.ConfigError`]: if one of them is not a number.
    """
    return [_reward(part.strip(), text) for part in text.split(",")]


def _reward(part: str, text: str) -> float | None:
    if part.lower() in ("none", "null", "nan"):
        return None
    try:
        reward = float(part)
    except ValueError:
        raise ConfigError(f"--rewards {text!r}: {part!r} is not a number; write them like 1,0,0.5,none") from None
    if abs(reward) > LARGEST_REWARD:
        raise ConfigError(f"--rewards {text!r}: {part!r} is too large; rewards go up to {LARGEST_REWARD:g}")
    return reward


def _parse_params(text: str | None) -> dict[str, dict[str, Any]]:
    if text is None:
        return {}
    example = '\'{"passk_training": {"k": 2}}\''
    try:
        params = json.loads(text)
    except ValueError:
        raise ConfigError(f"--params {text!r} is not JSON; write it like {example}") from None
    if not isinstance(params, dict) or not all(isinstance(value, dict) for value in params.values()):
        raise ConfigError(f"--params {text!r} does not map estimators to parameters; write it like {example}")
    return params


def _show_comparison(
    console: "Console", groups: Groups, variants: str | None, params: dict[str, dict[str, Any]]
) -> None:
    names = _choose(variants)
    for name in params:
        if name not in names:
            raise ConfigError(f"--params sets {name!r}, which is not shown; shown are: {', '.join(names)}")
    columns = {
        "raw": _advantages("dr_grpo", groups, {}),
        "normalised": _advantages("grpo", groups, {"ddof": 0, "eps": 1e-8}),
    }
    refused: dict[str, ExtError] = {}
    for name in names:
        try:
            columns[name] = _advantages(name, groups, params.get(name, {}))
        except ExtError as error:
            if variants != "all":
                raise
            refused[name] = error
    for number, group in enumerate(groups, start=1):
        _print(console, f"group {number}: " if len(groups) > 1 else "", _statistics(group))
    for table in _tables(groups, columns, console.width):
        console.print(table)
    _print(console, "raw = r - mean, normalised = (r - mean) / (std + 1e-08), both over the group.")
    for name, reason in refused.items():
        _print(console, f"Left out: {name}, since {str(reason).removeprefix(f'{name}: ')}")
    if variants is None:
        _print(console, "`--variants all` shows every estimator that needs rewards only.")


def _choose(variants: str | None) -> list[str]:
    from trl_grpo_ext.advantages import bind_params, list_advantages

    if variants == "all":
        return [name for name in list_advantages() if _lacks(bind_params(name)) is None]
    names = list(DEFAULT_VARIANTS)
    if variants is not None:
        names = list(dict.fromkeys(name.strip() for name in variants.split(",") if name.strip()))
        if not names:
            raise ConfigError(f"--variants {variants!r} names no estimator; write them like grpo,rloo")
    for name in names:
        lacking = _lacks(bind_params(name))
        if lacking is not None:
            raise ConfigError(f"{name!r} {lacking}")
    return names


def _lacks(estimator: "Estimator") -> str | None:
    """What an estimator needs and cannot get here."""
    kinds = {"shape/": "shapes rewards", "select/": "selects completions", "kl/": "estimates the KL divergence"}
    for prefix, does in kinds.items():
        if estimator.name.startswith(prefix):
            return f"{does} and is no advantage estimator; `trl-grpo-ext list advantages` lists those"
    needs = [repr(name) for name in estimator.inputs]
    if estimator.layout != "rewards":
        needs.insert(0, repr(estimator.layout))
    if not needs:
        return None
    return f"needs {' and '.join(needs)}, and only rewards are given here; use trl_grpo_ext.estimate from Python"


def _advantages(name: str, groups: Groups, params: dict[str, Any]) -> list[list[float]]:
    from trl_grpo_ext.advantages import estimate

    return estimate(name, groups, params=params)  # type: ignore[return-value]  # lists in, lists out


def _print(console: "Console", *texts: str) -> None:
    console.print(*texts, sep="", markup=False)


def _statistics(group: list[float | None]) -> str:
    known = [reward for reward in group if reward is not None]
    if not known:
        return "no reward is known: every advantage is 0"
    text = f"mean {statistics.mean(known):.6g}, std {statistics.pstdev(known):.6g} (divisor n)"
    if len(known) < len(group):
        text += f", over {len(known)} of {len(group)} completions"
    if min(known) == max(known):
        text += "; all rewards agree, so comparing them teaches nothing"
    return text


def _tables(groups: Groups, columns: dict[str, list[list[float]]], width: int) -> "list[Table]":
    """As many tables as it takes to show all columns in `width`."""
    heads: dict[str, list[str]] = {}
    if len(groups) > 1:
        heads["group"] = [str(i) if j == 0 else "" for i, group in enumerate(groups, 1) for j in range(len(group))]
    heads["#"] = [str(j) for group in groups for j, _ in enumerate(group, 1)]
    heads["reward"] = ["none" if reward is None else f"{reward:g}" for group in groups for reward in group]
    taken = 2 + sum(map(_width, heads.items()))
    chunks: list[dict[str, list[str]]] = []
    left = 0
    for name, nested in columns.items():
        cells = _cells([value for values in nested for value in values])
        left -= _width((name, cells))
        if left < 0:
            chunks.append(dict(heads))
            left = width - taken - _width((name, cells))
        chunks[-1][name] = cells
    return [_table(chunk, len(groups[0])) for chunk in chunks]


def _table(columns: dict[str, list[str]], size: int) -> "Table":
    table = _empty_table()
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for index, row in enumerate(zip(*columns.values(), strict=True), start=1):
        table.add_row(*row, end_section=index % size == 0)
    return table


def _empty_table() -> "Table":
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _width(column: tuple[str, list[str]]) -> int:
    return 2 + max(len(column[0]), *map(len, column[1]))


def _cells(values: list[float]) -> list[str]:
    """Values of a column as text; `0` is exactly 0, and `0.0000` is not."""
    largest = max(map(abs, values))
    style = ".4f" if 1e-2 <= largest < 1e5 else ".4g"
    return ["0" if value == 0 else format(value, style) for value in values]


def dead_share(pass_rate: float, size: int) -> float:
    """Expected share of groups of `size` completions that are all right or all wrong."""
    return pass_rate**size + (1 - pass_rate) ** size


def _show_pass_rates(console: "Console", size: int | None) -> None:
    _print(console, "Expected share of groups that are all right or all wrong: p^G + (1 - p)^G")
    table = _empty_table()
    table.add_column("pass rate p", justify="right", no_wrap=True)
    sizes = sorted({*GROUP_SIZES, *([] if size is None else [size])})
    for number in sizes:
        chosen = number == size
        name = f"G = {number}{' *' if chosen else ''}"
        table.add_column(name, justify="right", no_wrap=True, style="bold green" if chosen else None)
    for rate in PASS_RATES:
        table.add_row(f"{rate:.2f}", *(_share(dead_share(rate, number)) for number in sizes))
    console.print(table)
    if size is not None:
        _print(console, "* the group size of --rewards")


def _share(share: float) -> str:
    return f"{share:.4f}" if share >= 5e-5 else "<0.0001"
