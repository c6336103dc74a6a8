"""Stage `eval`: how often a model is right, greedily and over samples, with confidence intervals."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.files import write_json
from trl_grpo_ext.rewards import FormatReward, JudgedReward
from trl_grpo_ext.stages.evaluation import Evaluation
from trl_grpo_ext.stages.processes import process_state
from trl_grpo_ext.stages.stage import Stage, require_columns
from trl_grpo_ext.stages.stage_rewards import build_rewards, format_of, judge_of
from trl_grpo_ext.stages.statistics import bootstrap_interval, pass_at_k, wilson_interval
from trl_grpo_ext.verdict import Verdict


if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from trl_grpo_ext.stages.generation import Completion

SAMPLES_SHOWN = 20


def run(stage: Stage) -> None:
    """Evaluate the model of `init_from` on `eval.jsonl` and write `out/scores.json`."""
    evaluation = Evaluation(**stage.config.get("evaluation", {}))
    rows = stage.rows("eval.jsonl")
    rewards = build_rewards(stage.config.get("rewards") or [])
    judge = judge_of(rewards, rows[0])
    require_columns(rows, ["prompt", judge.column_of(rows[0])], f"eval rows of stage {stage.record['id']!r}")
    model, tokenizer = load_model(stage.model, stage.template, **stage.model_kwargs)
    scores = evaluate_model(
        model,
        tokenizer,
        rows,
        evaluation,
        seed=stage.seed,
        judge=judge,
        format_reward=format_of(rewards),
        on_progress=stage.progress,
    )
    if stage.rank == 0:
        write_json(stage.fresh_out() / "scores.json", scores)


def load_model(
    name_or_path: str, template: str | None = None, **kwargs: Any
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """
    Load a model for inference on this process's device, and its tokenizer with `template` if one is given.

    Raises:
        [`~errors.ConfigError`]: if there is no such model.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = process_state().device
    # Half precision is emulated on most CPUs, several times slower than full precision.
    dtype: Any = torch.float32 if device.type == "cpu" else "auto"
    try:
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **kwargs)
        model = AutoModelForCausalLM.from_pretrained(name_or_path, dtype=dtype, **kwargs)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the model {name_or_path!r}: {' '.join(str(error).split())}") from error
    if template is not None:
        tokenizer.chat_template = template
    return model.to(device).eval(), tokenizer


# An answer that stands in text that was cut off was not the model's last word.
_TRUNCATED = Verdict(0.0, "truncated", reason="the length limit ended it")


@dataclass(frozen=True)
class Judged:
    """One completion of one problem, its verdict, and its format reward if that was asked for."""

    completion: "Completion"
    verdict: Verdict
    format: float | None = None


def evaluate_model(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    rows: Sequence[dict],
    evaluation: Evaluation,
    *,
    seed: int = 0,
    judge: JudgedReward | None = None,
    format_reward: FormatReward | None = None,
    on_progress: Callable[[int, int, str], None] = lambda step, total, text: None,
) -> dict[str, Any]:
    """
    Generate, judge and summarise. Under several processes each takes a share of the rows; all return the same scores.

    Args:
        model (`PreTrainedModel`):
            The model, on its device.
        tokenizer (`PreTrainedTokenizerBase`):
            Its tokenizer.
        rows (`Sequence[dict]`):
            Rows with `prompt` (messages or a string) and the reference.
        evaluation ([`Evaluation`]):
            What to measure.
        seed (`int`, *optional*, defaults to `0`):
            Seed of the samples.
        judge (`JudgedReward`, *optional*):
            The reward that says what is right; by default that of the domain of the rows, with default parameters.
        format_reward (`FormatReward`, *optional*):
            The format reward, if its share is wanted.
        on_progress (`Callable`, *optional*):
            Called with the number of completions written, of how many, and what is going on.

    Returns:
        `dict`: the content of `scores.json`.
    """
    import torch
    from accelerate.utils import gather_object

    from trl_grpo_ext.stages.generation import encode_prompts, generate

    started = time.monotonic()
    state = process_state()
    judge = judge or judge_of([], rows[0])
    judge.start()
    rows = list(rows[: evaluation.limit])
    mine = rows[state.process_index :: state.num_processes]
    prompts = encode_prompts(tokenizer, [row["prompt"] for row in mine])
    total = len(mine) * (1 + evaluation.n_samples)
    torch.manual_seed(seed + state.process_index)

    def write(n: int, temperature: float, before: int) -> "list[list[Completion]]":
        return generate(
            model,
            tokenizer,
            prompts,
            n=n,
            temperature=temperature,
            top_p=evaluation.top_p,
            max_completion_length=evaluation.max_completion_length,
            batch_size=evaluation.batch_size,
            on_batch=lambda done: on_progress(before + done, total, "sampling" if temperature else "greedy"),
        )

    greedy = write(1, 0.0, 0)
    sampled = write(evaluation.n_samples, evaluation.temperature, len(mine)) if evaluation.n_samples else greedy
    per_row = [first + (more if evaluation.n_samples else []) for first, more in zip(greedy, sampled, strict=True)]
    on_progress(total, total, "judging")
    numbers = range(len(rows))[state.process_index :: state.num_processes]
    results = list(zip(numbers, _judge(mine, per_row, judge, format_reward), strict=True))
    if state.num_processes > 1:
        results = gather_object(results)
    judged = [problem for _, problem in sorted(results, key=lambda result: result[0])]
    scores = summarize(judged, evaluation.k)
    scores["seconds"] = round(time.monotonic() - started, 3)
    shown = zip(rows[:SAMPLES_SHOWN], judged[:SAMPLES_SHOWN], strict=True)
    scores["samples"] = [_shown(row, judge.expected(row), problem[0]) for row, problem in shown]
    return scores


def summarize(judged: Sequence[Sequence[Judged]], ks: Sequence[int]) -> dict[str, Any]:
    """
    The numbers of `scores.json` from judged completions.

    A completion that could not be scored is left out of every mean and counted under `unscored`: it says nothing about
    the model. The greedy accuracy has a Wilson interval (independent trials). Sampled accuracy and pass@k have a
    bootstrap interval over problems, since the samples of one problem are not independent.

    Args:
        judged (`Sequence`):
            Per problem the greedy completion, then the sampled ones.
        ks (`Sequence[int]`):
            For which k to estimate pass@k.
    """
    flat = [completion for problem in judged for completion in problem]
    greedy = [float(bool(problem[0].verdict)) for problem in judged if problem[0].verdict.value is not None]
    # Per problem: samples that were scored, and how many of them are right.
    counts = [_counts(problem[1:]) for problem in judged]
    sampled = [correct / n for n, correct in counts if n]
    return {
        "n": len(judged),
        "greedy": {"mean": _mean(greedy), "ci": wilson_interval(sum(greedy), len(greedy)) if greedy else None},
        "sampled": {**_with_interval(sampled), "n_samples": max((len(problem) - 1 for problem in judged), default=0)},
        "pass_at_k": {
            str(k): _with_interval([pass_at_k(n, c, k) for n, c in counts if n >= k]) for k in ks if sampled
        },
        "format": None if all(j.format is None for j in flat) else {"mean": _mean([j.format or 0.0 for j in flat])},
        "truncated": _mean([float(j.completion.truncated) for j in flat]),
        "unscored": _mean([float(j.verdict.value is None) for j in flat]),
        "mean_tokens": _mean([float(j.completion.tokens) for j in flat]),
    }


def _counts(samples: Sequence[Judged]) -> tuple[int, int]:
    values = [judged.verdict.value for judged in samples if judged.verdict.value is not None]
    return len(values), sum(value == 1.0 for value in values)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _with_interval(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": _mean(values), "ci": bootstrap_interval(values) if values else None}


def _judge(
    rows: Sequence[dict],
    completions: "Sequence[Sequence[Completion]]",
    judge: JudgedReward,
    format_reward: FormatReward | None,
) -> list[list[Judged]]:
    """Judge with the very rewards that training uses, given what the trainer gives them."""
    flat = [(row, completion) for row, written in zip(rows, completions, strict=True) for completion in written]
    if not flat:
        return []
    inputs: dict[str, Any] = {
        "prompts": [row["prompt"] for row, _ in flat],
        "completions": [[{"role": "assistant", "content": completion.text}] for _, completion in flat],
        **{key: [row.get(key) for row, _ in flat] for key in rows[0] if key not in ("prompt", "completion")},
    }
    formats = format_reward(**inputs) if format_reward else [None] * len(flat)
    written = [completion for _, completion in flat]
    verdicts = [
        _TRUNCATED if completion.truncated else verdict
        for completion, verdict in zip(written, judge.verdicts(**inputs), strict=True)
    ]
    judged = map(Judged, written, verdicts, formats)
    return [[next(judged) for _ in of_row] for of_row in completions]


def _shown(row: dict, gold: str, greedy: Judged) -> dict[str, Any]:
    verdict = greedy.verdict
    prompt = row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"]
    return {
        "prompt": prompt,
        "completion": greedy.completion.text,
        "gold": gold,
        "value": verdict.value,
        "kind": verdict.kind,
        "answer": verdict.answer,
        "reason": verdict.reason,
    }
