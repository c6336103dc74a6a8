"""`trl-grpo-ext run RECIPE`."""

from trl_grpo_ext.stages.commands.parser import Parser
from trl_grpo_ext.stages.grpo import CONTROLS


def main(command: str, argv: list[str]) -> int:
    """Run a recipe; return 0 when every stage is done."""
    parser = Parser(f"trl-grpo-ext {command}", description="Run a recipe. Stages that are done are not started again.")
    parser.add_argument("recipe", metavar="RECIPE", help="A YAML file, or the name of a shipped recipe.")
    parser.add_argument("--output_dir", metavar="DIR", help="Directory of the run, in place of the recipe's.")
    parser.add_argument("--seed", type=int, metavar="N", help="Seed, in place of the recipe's.")
    parser.add_argument(
        "--control",
        choices=CONTROLS,
        help="Run the recipe as a control experiment: every grpo stage trains on rewards permuted at random. The "
        "default directory gets the suffix -control-<name>.",
    )
    arguments = parser.parse_args(argv)

    from trl_grpo_ext.pipeline import load_recipe
    from trl_grpo_ext.pipeline.runner import Runner
    from trl_grpo_ext.shipped import recipe_path

    recipe = load_recipe(recipe_path(arguments.recipe), output_dir=arguments.output_dir, seed=arguments.seed)
    if arguments.control and arguments.output_dir is None:
        recipe = recipe.in_directory(f"{recipe.output_dir}-control-{arguments.control}")
    Runner(recipe, control=arguments.control).run()
    return 0
