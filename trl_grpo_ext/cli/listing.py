"""`trl-grpo-ext list [WHAT]`."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from trl_grpo_ext.advantages.estimation import Estimator


def main(command: str, argv: list[str]) -> int:
    """Print the names that recipes can use, one on a line, or what the advantages are; return 0."""
    parser = Parser(f"trl-grpo-ext {command}", description="List the names that a recipe can use.")
    parser.add_argument("what", nargs="?", choices=tuple(_LISTS), help="What to list; everything by default.")
    parser.add_argument(
        "--long",
        action="store_true",
        help="With advantages: the whole catalogue, reward shapers, selectors and KL estimators included, with level, "
        "needs and one line for each.",
    )
    arguments = parser.parse_args(argv)
    if arguments.long:
        if arguments.what != "advantages":
            parser.error(f"--long is for `trl-grpo-ext {command} advantages`")
        _show_catalogue()
        return 0
    if arguments.what:
        print("\n".join(_LISTS[arguments.what]()))
        return 0
    for what, names in _LISTS.items():
        print(f"{what}:")
        print("".join(f"  {name}\n" for name in names()), end="")
    return 0


def _recipes() -> list[str]:
    from trl_grpo_ext.shipped import list_recipes, recipe_name

    return [recipe_name(path) for path in list_recipes()]


def _rewards() -> list[str]:
    from trl_grpo_ext.rewards import list_rewards

    return list_rewards()


def _advantages() -> list[str]:
    from trl_grpo_ext.advantages import list_advantages

    return list_advantages()


def summary(entry: Callable) -> str:
    """The first paragraph of an entry's docstring as one line; empty if it has none."""
    return " ".join((inspect.getdoc(entry) or "").split("\n\n")[0].split()).rstrip(".")


def needs(estimator: "Estimator") -> str:
    """What an entry takes beside one reward for each completion; what it can do without is in brackets."""
    several = {"components": ["several rewards"], "step_rewards": ["step rewards"]}.get(estimator.layout or "", [])
    return ", ".join([*several, *estimator.inputs, *(f"[{name}]" for name in estimator.optional_inputs)])


def _show_catalogue() -> None:
    from importlib import import_module

    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from trl_grpo_ext.advantages import ADVANTAGES, FAMILIES, bind_params

    families = {name: family for family, names in FAMILIES.items() for name in names}
    from_elsewhere = [name for name in ADVANTAGES.names() if name not in families]
    width = 2 + max(map(len, ADVANTAGES.names()))
    console = Console(highlight=False)
    last = None
    for name in [*families, *from_elsewhere]:
        family = families.get(name, "from other packages")
        if family != last:
            module = import_module(f"trl_grpo_ext.advantages.{family}") if name in families else None
            title = f"{family}: {(module.__doc__ or '').strip()}" if module else f"{family}:"
            console.print(Text(f"\n{title}" if last else title, style="bold"))
            last = family
        estimator = bind_params(name)
        line = f"{name:<{width}}per {estimator.level}"
        if needs(estimator):
            line += f", needs {needs(estimator)}"
        console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
        console.print(Padding(Text(summary(estimator.function), style="dim"), (0, 0, 0, 6), expand=False))


def _tasks() -> list[str]:
    from trl_grpo_ext.tasks import list_tasks

    return list_tasks()


def _accelerate() -> list[str]:
    from trl_grpo_ext.shipped import list_accelerate_configs

    return [path.stem for path in list_accelerate_configs()]


_LISTS: dict[str, Callable[[], list[str]]] = {
    "recipes": _recipes,
    "rewards": _rewards,
    "advantages": _advantages,
    "tasks": _tasks,
    "accelerate": _accelerate,
}
