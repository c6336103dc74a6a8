"""
`trl-grpo-ext eval`: how often a model is right, on a task or on a file of prompts and references.

Example:

```bash
trl-grpo-ext eval --model out --task gsm8k --limit 100 --max_completion_length 512 --output_file scores.json
```
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.files import read_jsonl, write_json
from trl_grpo_ext.rewards import FormatReward
from trl_grpo_ext.stages.commands.parser import Parser
from trl_grpo_ext.stages.evaluation import Evaluation
from trl_grpo_ext.stages.stage import require_columns, require_prompts
from trl_grpo_ext.stages.stage_rewards import judge_of
from trl_grpo_ext.tasks import build_task, load_template


PROBLEMS_OF_A_TASK = 200  # enough for an interval of about +-7 points, few enough for a first look


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command and return its exit code.

    Raises:
        [`~errors.ConfigError`], [`~errors.DataError`]: if an argument, the model or the data is wrong.
    """
    arguments = _parser().parse_args(argv)
    evaluation = Evaluation(**{f.name: getattr(arguments, f.name) for f in dataclasses.fields(Evaluation)})
    rows = read_rows(arguments.dataset, evaluation) if arguments.dataset else draw_rows(arguments, evaluation)
    template = load_template(arguments.template) if arguments.template else None

    from trl_grpo_ext.stages.evaluate import evaluate_model, load_model

    revision = {"revision": arguments.revision} if arguments.revision else {}
    model, tokenizer = load_model(arguments.model, template, **revision)
    format_reward = FormatReward() if arguments.format else None
    scores = evaluate_model(model, tokenizer, rows, evaluation, seed=arguments.seed, format_reward=format_reward)
    print(table(scores))
    if arguments.output_file:
        write_json(arguments.output_file, scores)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser("trl-grpo-ext eval", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", required=True, help="Folder or Hub id of the model.")
    parser.add_argument("--revision", help="Commit of a model on the Hub.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--task", help="Task whose held-out problems to evaluate.")
    source.add_argument("--dataset", help="JSON-lines file with `prompt` and `answer`, or `prompt`, `case`, `domain`.")
    parser.add_argument("--task_params", type=_mapping, default={}, help="Parameters of the task, as JSON.")
    parser.add_argument("--template", help="Name or path of a chat template, instead of the model's own.")
    parser.add_argument("--format", action="store_true", help="Also report the share in <think>/<answer> format.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the samples and of the task's draw.")
    parser.add_argument("--output_file", help="JSON file for all numbers and 20 judged completions.")
    defaults = Evaluation()
    parser.add_argument("--n_samples", type=int, default=defaults.n_samples, help="Samples per problem.")
    parser.add_argument("--temperature", type=float, default=defaults.temperature, help="Temperature of the samples.")
    parser.add_argument("--top_p", type=float, default=defaults.top_p, help="Nucleus of the samples.")
    parser.add_argument("--max_completion_length", type=int, default=defaults.max_completion_length, help="Tokens.")
    parser.add_argument("--k", type=int, nargs="+", default=defaults.k, help="The k of pass@k.")
    parser.add_argument("--limit", type=int, help=f"Problems: all of a file, {PROBLEMS_OF_A_TASK} of a task.")
    parser.add_argument("--batch_size", type=int, default=defaults.batch_size, help="Completions at once.")
    return parser


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{text} is not a JSON object")
    return value


def read_rows(dataset: str, evaluation: Evaluation) -> list[dict]:
    """
    Rows of a JSON-lines file.

    Raises:
        [`~errors.DataError`]: if there is no such file, or its rows lack a prompt or a reference.
    """
    if not Path(dataset).is_file():
        raise DataError(f"no dataset file {dataset!r}; give a .jsonl file, or --task with one of the tasks")
    rows = list(read_jsonl(dataset))[: evaluation.limit]
    if not rows:
        raise DataError(f"{dataset!r} has no rows")
    require_columns(rows, ["prompt", judge_of([], rows[0]).column_of(rows[0])], repr(dataset))
    require_prompts(rows, repr(dataset))
    return rows


def draw_rows(arguments: argparse.Namespace, evaluation: Evaluation) -> list[dict]:
    """Held-out rows of a task."""
    task = build_task(arguments.task, **arguments.task_params)
    return task.rows("eval", evaluation.limit or PROBLEMS_OF_A_TASK, arguments.seed)


def table(scores: dict[str, Any]) -> str:
    """The numbers of an evaluation as text, one a line."""
    lines = [("problems", str(scores["n"])), ("greedy accuracy", _interval(scores["greedy"]))]
    if scores["sampled"]["n_samples"]:
        name = f"sampled accuracy ({scores['sampled']['n_samples']} samples)"
        lines.append((name, _interval(scores["sampled"])))
        lines += [(f"pass@{k}", _interval(value)) for k, value in scores["pass_at_k"].items()]
    lines += [(name, _percent(scores[name])) for name in ("truncated", "unscored")]
    if scores["format"]:
        lines.append(("format", _percent(scores["format"]["mean"])))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _interval(value: dict[str, Any]) -> str:
    if value["mean"] is None:
        return "-"
    low, high = value["ci"]
    return f"{_percent(value['mean'])}  (95 % interval {_percent(low)} to {_percent(high)})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
