"""`trl-grpo-ext list [WHAT]`."""

from collections.abc import Callable

from trl_grpo_ext.stages.commands.parser import Parser


def main(command: str, argv: list[str]) -> int:
    """Print the names that recipes can use, one on a line; return 0."""
    parser = Parser(f"trl-grpo-ext {command}", description="List the names that a recipe can use.")
    parser.add_argument("what", nargs="?", choices=tuple(_LISTS), help="What to list; everything by default.")
    arguments = parser.parse_args(argv)
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
