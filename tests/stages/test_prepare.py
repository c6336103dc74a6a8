import pytest

from trl_grpo_ext.errors import DataError, StageError
from trl_grpo_ext.files import read_json, read_jsonl
from trl_grpo_ext.stages import prepare
from trl_grpo_ext.stages.prepare import clean, run
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.validation import Domain


def row(question, answer):
    return {"prompt": [{"role": "user", "content": question}], "answer": answer, "source": "s", "license": "l"}


def rows(n, first=0):
    return [row(f"What is {i}+1?", str(i + 1)) for i in range(first, first + n)]


def test_duplicates_and_bad_golds_are_dropped_with_a_reason():
    bad = row("Why?", "")
    kept, dropped = clean({"sft": [*rows(100), row("what  is 3+1?", "4")], "rl": [*rows(99), bad]})
    assert [len(kept["sft"]), len(kept["rl"])] == [100, 99]
    assert [r["prompt"][0]["content"] for r in dropped["duplicate"]] == ["what  is 3+1?"]
    assert dropped["gold_fails"][0]["dropped_because"].startswith("unscorable")


def test_a_gold_that_only_equals_its_own_text_is_dropped():
    kept, dropped = clean({"rl": [*rows(99), row("half", r"\frac{1}{0")]})
    assert len(kept["rl"]) == 99
    assert dropped["gold_fails"][0]["answer"] == r"\frac{1}{0"


def test_too_many_bad_golds_are_an_error():
    with pytest.raises(DataError, match=r"3 of 103 math golds fail their own verifier, at most 2% may"):
        clean({"rl": [*rows(100), *(row(f"Why {i}?", "") for i in range(3))]})


def judged_by(*verdicts):
    """A domain that gives a gold the verdict at its own place."""
    return Domain(
        ("answer",),
        read=str,
        check=lambda golds: [Verdict(1.0, "correct")] * len(golds),
        judge=lambda golds, others: [verdicts[int(gold)] for gold in golds],
    )


RIGHT, WRONG = Verdict(1.0, "correct"), Verdict(0.0, "wrong", reason="no")
BROKEN = Verdict(None, "infra_error", reason="the zygote has ended")


def test_a_judge_that_fails_says_nothing_about_a_gold(monkeypatch):
    monkeypatch.setattr(prepare, "make_domain", lambda *arguments, **options: judged_by(RIGHT, WRONG, BROKEN))
    with pytest.raises(StageError, match=r"gold of row 2, .*: the zygote has ended\. `trl-grpo-ext doctor`"):
        clean({"rl": [row(f"{i}?", i) for i in range(3)]})


def test_each_domain_is_held_to_its_own_share(monkeypatch):
    verdicts = [WRONG] * 30 + [RIGHT] * 70
    monkeypatch.setattr(prepare, "make_domain", lambda *arguments, **options: judged_by(*verdicts))
    programs = [{**row(f"code {i}?", i), "domain": "code"} for i in range(100)]
    sums = [row(f"sum {i}?", i) for i in range(27, 100)]  # of these, 3 of 73 fail
    assert len(clean({"rl": programs})[1]["gold_fails"]) == 30
    assert len(clean({"rl": programs, "sft": sums[3:]})[1]["gold_fails"]) == 30
    with pytest.raises(DataError, match="3 of 73 math golds fail their own verifier, at most 2% may"):
        clean({"rl": programs, "sft": sums})
    with pytest.raises(DataError, match="30 of 80 code golds fail their own verifier, at most 35% may"):
        clean({"rl": [*sums[3:], *programs[:80]]})


@pytest.mark.parametrize("split", ["sft", "rl"])
def test_an_evaluation_problem_in_a_training_split_is_an_error(split):
    with pytest.raises(DataError, match=f"1 evaluation problems are also in split '{split}'"):
        clean({split: rows(10), "eval": rows(5, first=9)})


def test_sft_and_rl_may_share_problems():
    kept, _ = clean({"sft": rows(5), "rl": rows(5)})
    assert len(kept["rl"]) == 5


def test_files_and_report(make_stage):
    stage = make_stage("prepare", {"task": "arithmetic", "sizes": {"sft": 0, "rl": 4, "eval": 3}})
    run(stage)
    assert sorted(path.name for path in stage.out.iterdir()) == ["eval.jsonl", "report.json", "rl_prompts.jsonl"]
    assert len(list(read_jsonl(stage.out / "rl_prompts.jsonl"))) == 4
    report = read_json(stage.out / "report.json")
    assert report["kept"] == {"rl": 4, "eval": 3}
    assert report["dropped"] == {"duplicate": 0, "gold_fails": 0}
    assert report["licenses"] == ["Apache-2.0"]


@pytest.mark.tiny
def test_a_base_model_is_built(make_stage):
    config = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    base = {"from_config": {**config, "intermediate_size": 32, "num_key_value_heads": 2}}
    stage = make_stage("prepare", {"task": "arithmetic", "sizes": {"eval": 3}}, base=base)
    run(stage)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(stage.out / "base")
    assert model.config.hidden_size == 32
    assert AutoTokenizer.from_pretrained(stage.out / "base").chat_template == stage.template
