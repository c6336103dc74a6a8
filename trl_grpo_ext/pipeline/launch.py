"""How a stage's process is started: the command line, and how many processes it makes."""

import sys
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.pipeline.strict_yaml import read_yaml


def launch_command(accelerate_config: Path, stage_dir: Path) -> list[str]:
    """
    The command that runs a stage: `accelerate launch … -m trl_grpo_ext.stages --stage_dir DIR`.

    Args:
        accelerate_config (`Path`):
            Accelerate config to run under.
        stage_dir (`Path`):
            Directory of the stage, with its `stage.json`.
    """
    settings = read_accelerate_config(accelerate_config)
    several = world_size(accelerate_config) > 1 and (settings.get("num_machines") or 1) == 1
    # Port 0 is "any free one": two runs on one machine must not meet on accelerate's fixed default.
    port = ["--main_process_port", "0"] if several and not settings.get("main_process_port") else []
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--quiet"]
    stage = ["-m", "trl_grpo_ext.stages", "--stage_dir", str(stage_dir)]
    return [*launcher, "--config_file", str(accelerate_config), *port, *stage]


def world_size(accelerate_config: Path) -> int:
    """
    Number of processes that an accelerate config starts.

    Raises:
        [`~errors.ConfigError`]: if `num_processes` is no positive whole number.
    """
    processes = read_accelerate_config(accelerate_config).get("num_processes", 1)
    if not isinstance(processes, int) or processes < 1:
        raise ConfigError(f"{accelerate_config}: num_processes is {processes!r}; expected a whole number above 0")
    return processes


def read_accelerate_config(path: Path) -> dict[str, Any]:
    """
    Content of an accelerate config.

    Raises:
        [`~errors.ConfigError`]: if it is no mapping.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is no accelerate config: expected a mapping with `num_processes`")
    return content
