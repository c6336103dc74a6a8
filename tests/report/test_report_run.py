import json
import shutil

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.report import build_report, content, summary
from trl_grpo_ext.report.run import read_run


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_summary_has_every_stage_in_order(make_run):
    stages = summary(make_run())["stages"]
    assert [(stage["id"], stage["kind"]) for stage in stages] == [
        ("data", "prepare"),
        ("eval_base", "eval"),
        ("cold_sft", "sft"),
        ("eval_sft", "eval"),
        ("reason_rl", "grpo"),
        ("eval_rl", "eval"),
        ("report", "report"),
    ]
    evals = {stage["id"]: stage["eval"] for stage in stages}
    assert evals["eval_rl"] == {
        "greedy": 0.785,
        "sampled": pytest.approx(0.7065),
        "pass_at_k": {"1": pytest.approx(0.7065), "4": pytest.approx(0.942)},
    }
    assert evals["reason_rl"] is None
    json.dumps(stages, allow_nan=False)


def test_seconds_add_up_over_attempts(make_run):
    seconds = {stage["id"]: stage["seconds"] for stage in summary(make_run())["stages"]}
    assert seconds["reason_rl"] == pytest.approx(75 + 110)
    assert seconds["cold_sft"] == pytest.approx(63.0)
    assert seconds["report"] is None


def test_an_attempt_without_an_end_takes_the_seconds_of_done(make_run):
    run = make_run()
    attempts = [{"started": 10.0, "ended": 15.0, "exit_code": -9}, {"started": 20.0, "ended": None}]
    change(run / "02-cold_sft" / "stage.json", attempts=attempts)
    (run / "02-cold_sft" / "DONE").write_text('{"seconds": 7.5}')
    assert read_run(run).stages[2].seconds == pytest.approx(12.5)


def test_times_may_be_iso_text(make_run):
    run = make_run()
    attempts = [{"started": "2026-12-01T10:00:00Z", "ended": "2026-12-01T10:01:30+00:00"}]
    change(run / "02-cold_sft" / "stage.json", attempts=attempts)
    assert read_run(run).stages[2].seconds == pytest.approx(90.0)


def test_a_stage_moved_aside_is_not_part_of_the_run(make_run):
    run = make_run()
    shutil.copytree(run / "04-reason_rl", run / "04-reason_rl.old-1")
    assert len(read_run(run).stages) == 7


def test_stages_not_started_are_pending(make_run):
    run = make_run()
    shutil.rmtree(run / "05-eval_rl")
    stage = read_run(run).stages[5]
    assert (stage.id, stage.kind, stage.status, stage.seconds) == ("eval_rl", "eval", "pending", None)


def test_a_path_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no run directory at"):
        build_report(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is not a run directory"):
        summary(tmp_path)


def test_what_is_damaged_is_named(make_run):
    run = make_run()
    (run / "environment.json").unlink()
    (run / "01-eval_base" / "out" / "scores.json").write_text("{broken")
    (run / "03-eval_sft" / "out" / "scores.json").write_text("[1]")
    (run / "02-cold_sft" / "logs" / "metrics.jsonl").unlink()
    (run / "pipeline.resolved.yaml").write_text("a: [")
    with open(run / "04-reason_rl" / "logs" / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 161, "rew\n\xff\xfe\n[1]\n')
    found = read_run(run)
    text = "\n".join(found.problems)
    assert "environment.json is missing." in text
    assert "01-eval_base/out/scores.json cannot be read" in text
    assert "03-eval_sft/out/scores.json holds no JSON object." in text
    assert "02-cold_sft/logs/metrics.jsonl is missing." in text
    assert "pipeline.resolved.yaml cannot be read" in text
    assert "04-reason_rl/logs/metrics.jsonl: 3 unreadable line(s) were left out." in text
    assert len(found.stages[4].metrics) == 160
    assert len(found.stages) == 7, "the unresolved recipe still names the stages"


def test_a_whole_run_has_no_problems(make_run):
    assert read_run(make_run()).problems == []


@pytest.mark.parametrize("value", ["NaN", "1e999", "true", '"0.5"', "null", "[0.5]", "1" + "0" * 400])
def test_a_mean_that_is_no_finite_number_is_none(make_run, value):
    run = make_run()
    (run / "05-eval_rl" / "out" / "scores.json").write_text(f'{{"greedy": {{"mean": {value}, "ci": {value}}}}}')
    assert summary(run)["stages"][5]["eval"] == {"greedy": None, "sampled": None, "pass_at_k": {}}
    found = read_run(run)
    assert content.headline(found)["after"].text == "–"
    assert content.evaluation_rows(found, [])[-1]["greedy"].interval == ""
    assert len(content.evaluation_intervals(found, None)) == 4
