"""Advantages of every estimator on scripted completions; also started as several processes, which share groups."""

import copy
import json
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object
from datasets import Dataset

from tests.trainer.runs import arguments
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer, list_advantages
from trl_grpo_ext.rewards import StepReward, Steps


GROUP = 6
PROMPTS = 5  # 30 completions: 15 on each of two processes, 10 on each of three, so that groups straddle
ODD_GROUP = 9  # for mc_grpo: two groups of nine
INPUTS = {
    "canon": {"metric": "seq_entropy"},
    "stratified": {"strata": "tests.trainer.scripted.strata"},
    "hicra": {"planning_mask": "tests.trainer.scripted.planning_mask"},
    "rlsd": {"teacher_logp": "tests.trainer.scripted.teacher_logp"},
}
PARAMS = {"passk_training": {"k": 2}, "max_at_k": {"k": 2}, "pkpo": {"k": 2}}
STEP_ESTIMATORS = ("process_grpo", "gigpo")


class ScriptedTrainer(GroupRelativeTrainer):
    """Completions follow from the prompt and the place in the group, whatever process they are on."""

    def _generate(self, prompts):
        prompt_ids, *_ = self._tokenize_prompts(prompts)
        start = self.accelerator.process_index * len(prompts)
        size = self.group_size
        completion_ids = [
            script(ids, 0 if size == 1 else (start + row) % size, self._tokenizer)
            for row, ids in enumerate(prompt_ids)
        ]
        texts = self.processing_class.batch_decode(completion_ids, skip_special_tokens=True)
        completions = [[{"role": "assistant", "content": text}] for text in texts]
        return prompt_ids, completion_ids, None, completions, None, {}, None, []


def script(prompt_ids: list[int], place: int, tokenizer) -> list[int]:
    length = 2 + (sum(prompt_ids) + 3 * place) % 5
    ids = [3 + (sum(prompt_ids) * 7 + place * 11 + t * 5) % (len(tokenizer) - 3) for t in range(length)]
    return [*ids, tokenizer.eos_token_id]


def number_reward(completion_ids, **kwargs):
    """0, 0.5 or 1, and sometimes unjudged."""
    return [None if sum(ids) % 11 == 0 else (sum(ids) % 3) / 2 for ids in completion_ids]


def graded_reward(completion_ids, **kwargs):
    """Hardly ever the same twice."""
    return [(sum(ids) % 97) / 96 for ids in completion_ids]


def short_reward(completion_ids, **kwargs):
    return [1.0 if len(ids) < 5 else 0.25 for ids in completion_ids]


@StepReward
def step_reward(completion_ids, **kwargs):
    return [
        None
        if sum(ids) % 11 == 0
        else Steps([(token % 5) / 4 for token in ids[1:]], range(2, len(ids) + 1), [f"s{t % 2}" for t in ids[1:]])
        for ids in completion_ids
    ]


def strata(completion_ids, **kwargs):
    return [len(ids) % 2 for ids in completion_ids]


def planning_mask(completion_ids, **kwargs):
    return [[token % 2 for token in ids] for ids in completion_ids]


def teacher_logp(completion_ids, **kwargs):
    return [[-0.1 * (token % 7) for token in ids] for ids in completion_ids]


def cases() -> dict[str, dict]:
    """Settings by name: each estimator, each shaper, and the KL in the reward."""
    found = {
        name: {"advantage": name, "advantage_kwargs": PARAMS.get(name), "advantage_inputs": INPUTS.get(name)}
        for name in list_advantages()
    }
    found.get("reinforce_pp_kl", {}).update({"kl_in": "reward", "kl_estimator": "k1"})
    for shaper in ("kimi_length", "shorterbetter", "efficient_reasoning"):
        found[f"shape/{shaper}"] = {"reward_shaping": [shaper]}
    found["shape/dapo_overlong"] = {"reward_shaping": [{"name": "dapo_overlong", "max_len": 6, "cache_len": 4}]}
    for estimator in ("k1", "k2", "k3"):
        found[f"kl/{estimator}"] = {"kl_in": "reward", "kl_estimator": estimator, "advantage": "dr_grpo"}
    return found


def build(model: str, rows: list[dict], output_dir, world: int, rewards, **overrides) -> ScriptedTrainer:
    total = GROUP * PROMPTS
    sizes = {"per_device_train_batch_size": total // world, "per_device_eval_batch_size": total // world}
    settings = {
        "num_generations": GROUP,
        "gradient_accumulation_steps": 1,
        "eval_strategy": "no",
        **sizes,
        **overrides,
    }
    return ScriptedTrainer(
        model=model,
        reward_funcs=rewards,
        args=GroupRelativeConfig(**arguments(output_dir, **settings)),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:PROMPTS]),
    )


def advantages(trainer: ScriptedTrainer, settings: dict, rows: list[dict]) -> list[torch.Tensor]:
    """Advantages of two batches in training and one in evaluation, (N * G, T) each, gathered."""
    trainer.args = copy.copy(trainer.args)
    for option, value in settings.items():
        setattr(trainer.args, option, value)
    size = ODD_GROUP if settings.get("advantage") == "mc_grpo" else GROUP
    trainer.num_generations = trainer.num_generations_eval = size
    trainer._set_up_advantages()
    groups = 2 if size == ODD_GROUP else PROMPTS
    found = []
    for mode, first in (("train", 0), ("train", 2), ("eval", 1)):
        trainer.model.train(mode == "train")
        batch = [row for row in rows[first : first + groups] for _ in range(size)]
        share = len(batch) // trainer.accelerator.num_processes
        start = share * trainer.accelerator.process_index
        output = trainer._generate_and_score_completions(batch[start : start + share])
        table = output["advantages"]
        if table.dim() == 1:
            table = table.unsqueeze(1).expand_as(output["completion_mask"])
        table = table * output["completion_mask"] * output.get("tool_mask", 1)
        found.append(trainer.accelerator.gather(trainer.accelerator.pad_across_processes(table.contiguous(), dim=1)))
    return found


def run(model: str, rows: list[dict], output_dir, world: int) -> dict[str, list[torch.Tensor]]:
    """Advantages of all cases, by name."""
    outcome = build(model, rows, output_dir, world, [number_reward, short_reward], beta=0.04)
    steps = build(model, rows, output_dir, world, step_reward, beta=0.04, advantage="process_grpo")
    torch.manual_seed(7)
    for trainer in (outcome, steps):  # otherwise policy and reference agree and every KL is 0
        for parameter in trainer.model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return {
        name: advantages(
            steps if settings.get("advantage") in STEP_ESTIMATORS else outcome, {**RESET, **settings}, rows
        )
        for name, settings in cases().items()
    }


RESET = {
    "advantage": "grpo",
    "advantage_kwargs": None,
    "advantage_inputs": None,
    "reward_shaping": None,
    "kl_in": "loss",
    "kl_estimator": "k3",
}


def evaluate(model: str, rows: list[dict], output_dir, world: int, advantage: str) -> dict[str, list]:
    """Advantages by prompt in an evaluation whose last batch is not full."""
    trainer = build(
        model, rows, output_dir, world, [number_reward], advantage=advantage, per_device_eval_batch_size=12
    )
    found: list[tuple[str, list]] = []
    score = trainer._generate_and_score_completions

    def record(inputs):
        output = score(inputs)
        for row, values in zip(inputs, output["advantages"], strict=True):
            found.append((json.dumps(row["prompt"]), values.flatten().tolist()))
        return output

    trainer._generate_and_score_completions = record
    trainer.evaluate()
    by_prompt: dict[str, list] = {}
    for prompt, values in gather_object(found):
        by_prompt.setdefault(prompt, []).append(values)
    return by_prompt


def main() -> None:
    """Entry point of several processes: arguments as JSON in `sys.argv[1]`; rank 0 writes the result to a file."""
    request = json.loads(sys.argv[1])
    common = (request["model"], request["rows"], request["out"], request["world"])
    result = run(*common)
    result["evaluation"] = {name: evaluate(*common, name) for name in request["evaluated"]}
    from accelerate import PartialState

    if PartialState().is_main_process:
        torch.save(result, Path(request["out"]) / "result.pt")
    PartialState().wait_for_everyone()


if __name__ == "__main__":
    main()
