"""A driver in a process of its own, so that a test can kill it: `python fake_driver.py RECIPE RUN_DIR`."""

import sys
from pathlib import Path

from trl_grpo_ext.errors import ExtError
from trl_grpo_ext.pipeline import load_recipe
from trl_grpo_ext.pipeline.runner import Runner


def fake_command(accelerate_config: Path, stage_dir: Path) -> list[str]:
    return [sys.executable, "-S", str(Path(__file__).parent / "fake_stage.py"), str(stage_dir)]


def main() -> int:
    recipe = load_recipe(sys.argv[1], output_dir=sys.argv[2])
    try:
        Runner(recipe, build_command=fake_command, lock_timeout=10, grace=1.0).run()
    except ExtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
