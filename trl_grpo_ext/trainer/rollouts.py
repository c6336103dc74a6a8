"""Rollouts beside those that are trained on: greedy ones, and those of the policy that training started from."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.trainer.history import prompt_key


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer


def greedy_rewards(trainer: "GroupRelativeTrainer", inputs: list[dict], group_size: int) -> torch.Tensor:
    """
    Reward of one greedy completion for each prompt of a generation batch.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer.
        inputs (`list[dict]`):
            Dataset rows of this process's part of the batch, one for each completion.
        group_size (`int`):
            G.

    Returns:
        `torch.Tensor` of shape (N,), the same on every process; NaN where it could not be judged.
    """
    processes, rank = trainer.accelerator.num_processes, trainer.accelerator.process_index
    firsts = [_first_rows(process, len(inputs), group_size) for process in range(processes)]
    # Each process answers as many prompts as any other, since model and gathering calls must come in step.
    share = max(map(len, firsts))
    mine = list(firsts[rank].values())
    rows = [inputs[i] for i in mine + [mine[-1]] * (share - len(mine))]
    with _aside(trainer), _greedy(trainer):
        rewards = trainer.judge(rows, *_generate(trainer, rows))  # (P * share,)
    by_group: dict[int, int] = {}
    for process, groups in enumerate(firsts):
        for position, group in enumerate(groups):
            by_group.setdefault(group, process * share + position)
    return rewards[[by_group[group] for group in sorted(by_group)]]


def _first_rows(process: int, rows: int, group_size: int) -> dict[int, int]:
    """For each group that has rows on a process: the first of them, counted from the process's own first row."""
    start = process * rows
    firsts: dict[int, int] = {}
    for row in range(rows):
        firsts.setdefault((start + row) // group_size, row)
    return firsts


def reference_rewards(
    trainer: "GroupRelativeTrainer", rows: list[dict], rollouts: int, batch: int
) -> dict[str, list[float | None]]:
    """
    Sample `rollouts` completions of every prompt with the current policy, and judge them.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer, before its first step.
        rows (`list[dict]`):
            Dataset rows, the same on every process.
        rollouts (`int`):
            Completions for each prompt, M.
        batch (`int`):
            Completions that a process samples at a time.

    Returns:
        `dict[str, list[float | None]]`: prompt key to M rewards; `None` where one could not be judged.
    """
    from tqdm.auto import tqdm

    by_key = {prompt_key(row["prompt"]): row for row in rows}
    tasks = [(key, row) for key, row in by_key.items() for _ in range(rollouts)]
    accelerator = trainer.accelerator
    together = batch * accelerator.num_processes
    found: dict[str, list[float | None]] = {key: [] for key in by_key}
    starts = tqdm(
        range(0, len(tasks), together),
        desc=f"Reference rollouts of {len(by_key)} prompts",
        disable=not accelerator.is_main_process or trainer.args.disable_tqdm,
    )
    for start in starts:
        # The last batch is filled up from the first tasks, so that every process has one of the same size.
        chosen = [tasks[i % len(tasks)] for i in range(start, start + together)]
        first = accelerator.process_index * batch
        mine = [row for _, row in chosen[first : first + batch]]
        with _aside(trainer), _one_each(trainer):
            rewards = trainer.judge(mine, *_generate(trainer, mine)).tolist()
        for (key, _), reward in zip(chosen[: len(tasks) - start], rewards, strict=False):
            found[key].append(None if reward != reward else reward)
    return found


def _generate(trainer: "GroupRelativeTrainer", rows: list[dict]) -> tuple[list, list, list]:
    """Prompts, completions and completion ids of one completion for each row."""
    prompts = [row["prompt"] for row in rows]
    _, completion_ids, _, completions, *_ = trainer._generate(prompts)
    return prompts, completions, completion_ids


@contextmanager
def _one_each(trainer: Any) -> Iterator[None]:
    """Make generation take each prompt for itself: an inference server is otherwise asked once for each group."""
    saved = trainer.num_generations, trainer.num_generations_eval
    trainer.num_generations = trainer.num_generations_eval = 1
    try:
        yield
    finally:
        trainer.num_generations, trainer.num_generations_eval = saved


@contextmanager
def _greedy(trainer: Any) -> Iterator[None]:
    """Make generation deterministic, one completion for each prompt."""
    owner, name = (trainer.vllm_generation, "temperature") if trainer.use_vllm else (trainer, "generation_config")
    saved = getattr(owner, name)
    if trainer.use_vllm:
        changed: Any = 0.0
    else:
        changed = copy.deepcopy(saved)
        changed.update(do_sample=False, temperature=None, top_p=None, top_k=None, min_p=None)
    setattr(owner, name, changed)
    try:
        with _one_each(trainer):
            yield
    finally:
        setattr(owner, name, saved)


@contextmanager
def _aside(trainer: Any) -> Iterator[None]:
    """Keep generation and rewards of such rollouts out of the metrics and logs of training."""
    kept = ("_metrics", "_pending_metrics", "_pending_extra_logs")
    saved = {name: copy.deepcopy(getattr(trainer, name)) for name in kept}
    tokens = trainer.state.num_input_tokens_seen
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(trainer, name, value)
        trainer.state.num_input_tokens_seen = tokens
