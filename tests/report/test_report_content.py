import json
import shutil

import pytest

from trl_grpo_ext.report import content
from trl_grpo_ext.report.run import Stage, read_run


def rescore(run, stage, **changed):
    path = run / stage / "out" / "scores.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def alert_texts(run, control=None):
    found = content.alerts(read_run(run), read_run(control) if control else None)
    return [f"{alert.level}: {alert.title}. {alert.text}" for alert in found]


def test_a_good_run_needs_no_alert(make_run):
    assert alert_texts(make_run(), make_run("control", learns=False)) == []


def test_the_headline_compares_first_and_last(make_run):
    found = content.headline(read_run(make_run()))
    assert (found["before"].text, found["before_of"]) == ("0.5 %", "base")
    assert (found["after"].text, found["after_of"]) == ("78.5 %", "reason_rl")
    assert found["verdicts"] == [
        "+78.0 percentage points; the intervals do not overlap",
        "Since cold_sft (31.0 %): +47.5 percentage points; the intervals do not overlap",
    ]


def test_a_small_gain_may_be_chance(make_run):
    run = make_run()
    rescore(run, "05-eval_rl", greedy={"mean": 0.01, "ci": [0.003, 0.036]})
    verdicts = content.headline(read_run(run))["verdicts"]
    assert verdicts[0] == "+0.5 percentage points; the intervals overlap, so it may be chance"
    assert verdicts[1].startswith("Since cold_sft (31.0 %): −30.0 percentage points")


def test_without_intervals_nothing_is_said_about_chance(make_run):
    run = make_run()
    rescore(run, "05-eval_rl", greedy={"mean": 0.8, "ci": None})
    assert content.headline(read_run(run))["verdicts"][0] == "+79.5 percentage points"


def test_one_evaluation_has_nothing_to_compare_with(make_run):
    run = make_run()
    shutil.rmtree(run / "03-eval_sft")
    shutil.rmtree(run / "05-eval_rl")
    found = content.headline(read_run(run))
    assert (found["before"], found["after"].text, found["verdicts"]) == (None, "0.5 %", [])


def test_without_greedy_scores_the_headline_is_sampled(make_run):
    run = make_run()
    rescore(run, "05-eval_rl", greedy=None)
    assert content.headline(read_run(run))["decoding"] == "sampled"


def test_an_evaluation_on_other_problems_is_pointed_out(make_run):
    run = make_run()
    rescore(run, "05-eval_rl", n=50)
    assert alert_texts(run) == ["warn: Before and after were not measured alike. eval_base and eval_rl differ in: n."]


def test_an_ordinary_run_as_control_is_pointed_out(make_run):
    (text,) = alert_texts(make_run(), make_run("other"))
    assert text.startswith("warn: The overlaid run is not marked as a control.")


def test_a_control_run_says_what_it_is(make_run):
    (text,) = alert_texts(make_run("control", learns=False))
    assert text.startswith("note: This run is a control. It was started with shuffled-rewards")


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        (
            "rewards/math_reward/unscored_frac",
            0.03125,
            "rewards/math_reward/unscored_frac: mean < 0.1 %, at worst 3.1 %, non-zero in 1 of 160 logged steps",
        ),
        (
            "math_reward/timeouts",
            2.0,
            "math_reward/timeouts: mean 0.0125, at worst 2, non-zero in 1 of 160 logged steps",
        ),
    ],
)
def test_unscored_and_timed_out_completions_are_reported(make_run, metric, value, words):
    run = make_run()
    path = run / "04-reason_rl" / "logs" / "metrics.jsonl"
    rows = [json.loads(line) | {metric: 0.0} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert alert_texts(run) == []
    rows[40][metric] = value
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert alert_texts(run) == [f"bad: reason_rl: completions were left unscored or timed out. {words}"]


def test_unscored_evaluations_are_reported(make_run):
    run = make_run()
    rescore(run, "03-eval_sft", unscored=0.02)
    assert alert_texts(run) == ["bad: eval_sft: completions were left unscored or timed out. unscored: 2.0 %"]
    rows = content.evaluation_rows(read_run(run), ["4"])
    assert [row["trouble"] for row in rows] == [False, True, False]


def test_a_loss_that_is_not_finite_is_reported(make_run):
    run = make_run()
    with open(run / "04-reason_rl" / "logs" / "metrics.jsonl", "a") as file:
        file.write('{"step": 161, "loss": NaN}\n{"step": 162, "loss": null}\n')
    assert alert_texts(run) == ["bad: reason_rl: loss was not a finite number. In 2 of 162 logged steps."]


def test_a_failed_run_says_why_and_what_is_open(make_run):
    run = make_run()
    record = run / "04-reason_rl" / "stage.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"status": "failed"}))
    (run / "04-reason_rl" / "DONE").unlink()
    (run / "04-reason_rl" / "error.json").write_text('{"kind": "crash", "message": "out of memory"}')
    shutil.rmtree(run / "05-eval_rl")
    assert alert_texts(run) == [
        "bad: reason_rl failed. out of memory",
        "warn: The run is not finished. Still open: reason_rl (failed), eval_rl (pending).",
    ]


def test_missing_files_of_run_and_control_are_reported(make_run):
    run, control = make_run(), make_run("control", learns=False)
    (run / "environment.json").unlink()
    (control / "pipeline.resolved.yaml").unlink()
    assert alert_texts(run, control) == [
        "warn: Missing or unreadable. environment.json is missing. Control run: pipeline.resolved.yaml is missing."
    ]


def test_samples_show_right_and_wrong(make_run):
    run = read_run(make_run())
    evaluated, trained = content.samples(run.stages[5]), content.samples(run.stages[4])
    assert [sample["verdict"] for sample in evaluated] == ["right", "wrong", "wrong"]
    assert evaluated[2]["completion"] == "(empty)"
    assert dict(evaluated[1]["facts"]) == {
        "verdict": "wrong",
        "reason": "126 is not 92",
        "answer read": "126",
        "expected": "92",
    }
    assert [sample["verdict"] for sample in trained] == ["right"] * 3 + ["wrong"] * 3
    assert dict(trained[0]["facts"])["step"] == "160", "the newest come first"


def test_a_sample_without_a_score_is_not_called_wrong():
    scores = {"samples": [{"prompt": "p", "completion": "c", "value": None, "kind": "infra_error"}, "damaged"]}
    (sample,) = content.samples(Stage("e", "eval", scores=scores))
    assert sample["verdict"] == "not judged"


def test_ks_are_in_numeric_order():
    stage = Stage("e", "eval", scores={"pass_at_k": {"16": {}, "4": {}, "1": {}}})
    assert content.pass_ks([stage]) == ["1", "4", "16"]


def test_flatten():
    assert content.flatten({"a": {"b": 1, "c": []}, "d": None, "e": ["x", 2], "f": [{"g": 1}]}) == [
        ("a.b", "1"),
        ("a.c", "none"),
        ("d", "–"),
        ("e", "x, 2"),
        ("f", '[{"g": 1}]'),
    ]
