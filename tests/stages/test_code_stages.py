"""Programs in the stages: golds that fail their tests, and evaluations that run what was written."""

import json

import pytest

from trl_grpo_ext.errors import ConfigError, DataError, SandboxError
from trl_grpo_ext.files import read_json, read_jsonl, write_jsonl
from trl_grpo_ext.rewards import CodeFractionReward, CodeReward, MathReward
from trl_grpo_ext.stages.evaluate import _judge, _shown, summarize
from trl_grpo_ext.stages.generation import Completion
from trl_grpo_ext.stages.grpo import _as_text
from trl_grpo_ext.stages.prepare import clean, run
from trl_grpo_ext.stages.stage_rewards import answer_columns, build_rewards, default_reward, judge_of
from trl_grpo_ext.tasks import build_task


WRONG = "def f(x):\n    return 'seven'"


def rows(n, split="rl"):
    return build_task("tiny_programs").rows(split, n, seed=0)


@pytest.mark.sandbox
def test_programs_that_fail_their_own_tests_are_dropped():
    drawn = rows(20)
    drawn[3]["answer"] = WRONG
    drawn[4]["case"] = "{"
    drawn[5]["answer"] = ""  # no solution is no failure
    sums = [{"prompt": f"{i}+1", "domain": "math", "answer": str(i + 1)} for i in range(60)]
    kept, dropped = clean({"rl": [*drawn, *sums]})
    assert [row["id"] for row in kept["rl"][:18]] == [row["id"] for i, row in enumerate(drawn) if i not in (3, 4)]
    assert len(kept["rl"]) == 78
    reasons = [row["dropped_because"] for row in dropped["gold_fails"]]
    assert reasons[0].startswith("wrong: test 1 of 5")
    assert reasons[1].startswith("unscorable: the case is no JSON")


@pytest.mark.sandbox
def test_a_broken_collection_is_an_error():
    drawn = [{**row, "answer": WRONG} for row in rows(5)] + rows(8, "sft")
    with pytest.raises(
        DataError, match=r"5 of 13 code golds fail their own verifier, at most 35% may; the first is .def f"
    ):
        clean({"rl": drawn})


@pytest.mark.sandbox
def test_golds_run_where_they_are_told_to():
    drawn = [{**row, "answer": f"import psutil\n{row['answer']}"} for row in rows(3)]
    with pytest.raises(DataError, match="3 of 3 code golds"):
        clean({"rl": drawn})
    kept, _ = clean({"rl": drawn}, {"name": "local", "packages": ["psutil"]})
    assert len(kept["rl"]) == 3


@pytest.mark.sandbox
def test_the_stage_prepares_them(make_stage):
    stage = make_stage("prepare", {"task": "tiny_programs", "sizes": {"rl": 6, "eval": 3}})
    run(stage)
    assert len(list(read_jsonl(stage.out / "rl_prompts.jsonl"))) == 6
    assert read_json(stage.out / "report.json")["dropped"] == {"duplicate": 0, "gold_fails": 0}


@pytest.mark.sandbox
def test_an_evaluation_counts_programs_that_pass_all_tests():
    drawn = rows(2, "eval")
    right, half = drawn[0]["answer"], f"def f(x):\n    return {json.loads(drawn[1]['case'])['tests']['outputs'][0]}"
    texts = [f"```py\n{program}\n```" for program in (right, half)]
    written = [[Completion(text, 9, truncated) for truncated in (False, True)] for text in texts]
    judged = _judge(drawn, written, CodeFractionReward(), None)
    assert [[one.verdict.value for one in problem] for problem in judged] == [[1.0, 0.0], [0.2, 0.0]]
    assert [problem[1].verdict.kind for problem in judged] == ["truncated", "truncated"]
    assert summarize(judged, [1])["greedy"]["mean"] == 0.5
    shown = _shown(drawn[1], CodeFractionReward().expected(drawn[1]), judged[1][0])
    assert shown["gold"] == drawn[1]["answer"]
    assert shown["answer"].rstrip() == half
    assert shown["kind"] == "wrong"


def test_a_sandbox_that_is_refused_ends_an_evaluation_before_it_generates(monkeypatch):
    from trl_grpo_ext.stages.evaluate import evaluate_model
    from trl_grpo_ext.stages.evaluation import Evaluation

    class Refused:
        def isolation(self):
            raise SandboxError("Level 'restricted' is required")

    monkeypatch.setattr("trl_grpo_ext.rewards.program.open_sandbox", lambda spec: Refused())
    with pytest.raises(SandboxError, match="is required"):
        evaluate_model(None, None, rows(1, "eval"), Evaluation())


def test_the_judge_is_that_of_the_rewards_or_of_the_rows():
    code, math = {"domain": "code"}, {"domain": "math"}
    assert [default_reward(row) for row in (code, math, {})] == ["code", "math", "math"]
    assert isinstance(judge_of([], code), CodeReward)
    assert isinstance(judge_of([], {}), MathReward)
    rewards = build_rewards(["format", {"name": "code", "params": {"case_column": "tests"}}, "math", "length"])
    assert isinstance(judge_of(rewards, math), CodeReward)
    assert answer_columns(rewards, ["prompt", "solution"]) == ["tests", "solution"]
    assert answer_columns(build_rewards(["code", "code_fraction"]), []) == ["case"]
    assert answer_columns(build_rewards(["math"]), []) == ["answer"]


def test_references_become_text_of_one_type():
    assert _as_text({"format": "stdio"}) == '{"format": "stdio"}'
    assert [_as_text(value) for value in ("1", 1, 0.5)] == ["1", "1", "0.5"]


def test_a_reward_that_is_no_judge_is_refused_by_name():
    with pytest.raises(ConfigError, match="unknown reward 'cod'; did you mean 'code'"):
        build_rewards(["cod"])


@pytest.fixture(scope="module")
def programs_folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("programs")
    for split, name in (("rl", "rl_prompts.jsonl"), ("eval", "eval.jsonl")):
        write_jsonl(out / name, rows(8, split))
    return str(out)


@pytest.mark.tiny
@pytest.mark.sandbox
def test_training_and_evaluation_without_a_list_of_rewards_take_the_judge_of_programs(
    make_stage, tiny_model, programs_folder, monkeypatch
):
    from trl_grpo_ext.stages import evaluate, grpo

    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    inputs = {"init_from": tiny_model, "data": programs_folder}
    train = {
        "max_steps": 2,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 8,
        "gradient_checkpointing": False,
        "logging_steps": 1,
    }
    stage = make_stage("grpo", {"train": train}, inputs=inputs)
    grpo.run(stage)
    metrics = list(read_jsonl(stage.logs / "metrics.jsonl"))
    assert [row["rewards/code_reward/mean"] for row in metrics] == [0.0, 0.0]
    assert [row["code_reward/infra_frac"] for row in metrics] == [0.0, 0.0]
    solutions = {row["answer"] for row in rows(8)}
    assert {row["answer"] for row in read_jsonl(stage.logs / "completions.jsonl")} <= solutions

    stage = make_stage(
        "eval",
        {"evaluation": {"n_samples": 2, "k": [1], "max_completion_length": 8, "batch_size": 4}},
        inputs=inputs,
    )
    evaluate.run(stage)
    scores = read_json(stage.out / "scores.json")
    assert (scores["greedy"]["mean"], scores["unscored"]) == (0.0, 0.0)
    assert [sample["gold"] for sample in scores["samples"]] == [row["answer"] for row in rows(8, "eval")]


def test_a_file_of_programs_to_evaluate_needs_cases(tmp_path):
    from trl_grpo_ext.stages.commands.eval import read_rows
    from trl_grpo_ext.stages.evaluation import Evaluation

    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"prompt": "Double it.", "domain": "code", "case": '{"format": "stdio"}'}])
    assert len(read_rows(str(path), Evaluation())) == 1
    write_jsonl(path, [{"prompt": "Double it.", "domain": "code", "answer": "print(1)"}])
    with pytest.raises(DataError, match="1 of 1 rows have no 'case'"):
        read_rows(str(path), Evaluation())
