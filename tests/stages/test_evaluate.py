import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import read_json, write_jsonl
from trl_grpo_ext.rewards import FormatReward, MathReward
from trl_grpo_ext.stages import evaluate
from trl_grpo_ext.stages.evaluate import Judged, summarize
from trl_grpo_ext.stages.evaluation import Evaluation
from trl_grpo_ext.stages.statistics import wilson_interval
from trl_grpo_ext.verdict import Verdict


RIGHT, WRONG, UNJUDGED = (
    Verdict(1.0, "correct", "1"),
    Verdict(0.0, "wrong", "2"),
    Verdict(None, "infra_error", reason="the worker died"),
)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


def completion(text="", tokens=3, truncated=False):
    from trl_grpo_ext.stages.generation import Completion

    return Completion(text, tokens, truncated)


def problem(*verdicts):
    return [Judged(completion(), verdict) for verdict in verdicts]


def test_scores_by_hand():
    scores = summarize(
        [problem(RIGHT, RIGHT, RIGHT, WRONG, WRONG), problem(WRONG, WRONG, WRONG, WRONG, WRONG)], ks=[1, 2]
    )
    assert scores["n"] == 2
    assert scores["greedy"] == {"mean": 0.5, "ci": wilson_interval(1, 2)}
    assert scores["sampled"]["mean"] == pytest.approx(0.25)
    assert scores["sampled"]["n_samples"] == 4
    assert scores["pass_at_k"]["1"]["mean"] == pytest.approx(0.25)
    assert scores["pass_at_k"]["2"]["mean"] == pytest.approx((1 - 1 / 6) / 2)
    low, high = scores["sampled"]["ci"]
    assert 0 <= low <= 0.25 <= high <= 1
    assert scores["unscored"] == 0.0


def test_what_was_not_judged_is_neither_right_nor_wrong():
    scores = summarize([problem(UNJUDGED, RIGHT, UNJUDGED), problem(RIGHT, WRONG, UNJUDGED)], ks=[1, 2])
    assert scores["greedy"]["mean"] == 1.0
    assert scores["sampled"]["mean"] == 0.5
    assert scores["pass_at_k"]["1"]["mean"] == 0.5
    assert scores["pass_at_k"]["2"] == {"mean": None, "ci": None}  # nowhere are two samples judged
    assert scores["unscored"] == 0.5


def test_all_unjudged_has_no_mean():
    scores = summarize([problem(UNJUDGED, UNJUDGED)], ks=[1])
    assert scores["greedy"] == {"mean": None, "ci": None}
    assert scores["sampled"]["mean"] is None


def test_a_box_in_text_that_was_cut_off_is_not_paid():
    from trl_grpo_ext.rewards import MathReward
    from trl_grpo_ext.stages.evaluate import _judge

    text = r"I first guess \boxed{5}. Now let me verify"
    rows = [{"prompt": "2+3", "answer": "5"}]
    ((cut, whole),) = _judge(rows, [[completion(text, truncated=True), completion(text)]], MathReward(), None)
    assert (cut.verdict.value, cut.verdict.kind) == (0.0, "truncated")
    assert whole.verdict.value == 1.0


def test_greedy_only_has_no_pass_at_k():
    assert summarize([problem(RIGHT)], ks=[1])["pass_at_k"] == {}


def test_truncation_counts_every_completion():
    judged = [[Judged(completion(truncated=True), WRONG), Judged(completion(), WRONG), Judged(completion(), RIGHT)]]
    assert summarize(judged, ks=[1])["truncated"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_samples": -1}, "n_samples is -1"),
        ({"temperature": 0}, "temperature is 0"),
        ({"top_p": 0}, "top_p is 0"),
        ({"n_samples": 2, "k": [4]}, r"k is \[4\]; every k must lie between 1 and n_samples, 2"),
        ({"batch_size": 3}, "batch_size is 3, below n_samples, 4"),
        ({"limit": 0}, "limit is 0"),
    ],
)
def test_evaluations_that_make_no_sense_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        Evaluation(**values)


@pytest.mark.tiny
def test_texts_are_judged_with_the_rewards_of_training(tiny_model, monkeypatch):
    rows = [{"prompt": [{"role": "user", "content": f"{i}+1"}], "gold": str(i + 1)} for i in range(3)]
    written = {
        "0+1": ["<think>a</think><answer>1</answer>", "1"],
        "1+1": ["<answer>2</answer>", "<think>a</think><answer>3</answer>"],
        "2+1": ["4", "<think>a"],
    }
    model, tokenizer = evaluate.load_model(tiny_model)
    texts = {tuple(ids): row["prompt"][0]["content"] for ids, row in zip(_ids(tokenizer, rows), rows, strict=True)}

    def generate(model, tokenizer, prompts, *, n, on_batch, **settings):
        return [[completion(written[texts[tuple(prompt)]][n - 1])] * n for prompt in prompts]

    monkeypatch.setattr("trl_grpo_ext.stages.generation.generate", generate)
    scores = evaluate.evaluate_model(
        model,
        tokenizer,
        rows,
        Evaluation(n_samples=2, k=[1, 2]),
        judge=MathReward(answer_column="gold"),
        format_reward=FormatReward(),
    )
    assert scores["greedy"]["mean"] == pytest.approx(2 / 3)
    assert scores["sampled"]["mean"] == pytest.approx(1 / 3)
    assert scores["format"]["mean"] == pytest.approx((1 + 2) / 9)
    assert [sample["gold"] for sample in scores["samples"]] == ["1", "2", "3"]
    assert [sample["value"] for sample in scores["samples"]] == [1.0, 1.0, 0.0]
    assert scores["samples"][2]["answer"] == "4"


def _ids(tokenizer, rows):
    from trl_grpo_ext.stages.generation import encode_prompts

    return encode_prompts(tokenizer, [row["prompt"] for row in rows])


@pytest.mark.tiny
def test_the_stage_writes_scores(make_stage, tiny_model, data_folder):
    evaluation = {"n_samples": 2, "k": [1, 2], "max_completion_length": 8, "limit": 5, "batch_size": 4}
    config = {"rewards": ["math", "format"], "evaluation": evaluation}
    stage = make_stage("eval", config, inputs={"init_from": tiny_model, "data": data_folder})
    evaluate.run(stage)
    scores = read_json(stage.out / "scores.json")
    assert scores["n"] == 5
    assert set(scores["pass_at_k"]) == {"1", "2"}
    assert set(scores["samples"][0]) == {"prompt", "completion", "gold", "value", "kind", "answer", "reason"}
    assert read_json(stage.dir / "progress.json") == {"step": 15, "total": 15, "text": "judging"}
    evaluate.run(stage)
    again = read_json(stage.out / "scores.json")
    assert {**again, "seconds": 0} == {**scores, "seconds": 0}


def test_rows_without_an_answer_are_found_before_anything_loads(make_stage, tmp_path):
    write_jsonl(tmp_path / "eval.jsonl", [{"prompt": "p", "answer": "1"}, {"prompt": "q", "answer": None}])
    stage = make_stage("eval", {}, inputs={"init_from": "a model that does not exist", "data": str(tmp_path)})
    with pytest.raises(DataError, match="1 of 2 rows have no 'answer'"):
        evaluate.run(stage)


@pytest.mark.tiny
def test_a_model_that_is_nowhere_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot load the model .*nowhere"):
        evaluate.load_model(str(tmp_path / "nowhere"))
