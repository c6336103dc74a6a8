import math
import re

import pytest

from trl_grpo_ext.report.charts import resumed_at, stage_charts
from trl_grpo_ext.report.figures import Chart, Curve, Interval, draw_chart, draw_intervals, inline_svg, smooth
from trl_grpo_ext.report.run import Stage, read_run


def stage_of(*rows, kind="grpo", **record):
    return Stage("rl", kind, metrics=[{"step": index + 1, **row} for index, row in enumerate(rows)], record=record)


def test_grpo_charts(make_run):
    stage = read_run(make_run()).stages[4]
    charts = {chart.name: chart for chart in stage_charts(stage)}
    assert list(charts) == [
        "reason_rl-reward",
        "reason_rl-accuracy",
        "reason_rl-other_rewards",
        "reason_rl-zero_variance",
        "reason_rl-length",
        "reason_rl-truncated",
        "reason_rl-entropy",
        "reason_rl-loss",
        "reason_rl-grad_norm",
    ]
    assert [curve.label for curve in charts["reason_rl-accuracy"].curves] == ["math_reward"]
    assert [curve.label for curve in charts["reason_rl-other_rewards"].curves] == ["format_reward"]
    assert charts["reason_rl-reward"].curves[0].steps == list(range(1, 161))
    assert charts["reason_rl-reward"].marks == [71]


def test_the_control_is_drawn_over_the_run(make_run):
    run, control = read_run(make_run()).stages[4], read_run(make_run("control", learns=False)).stages[4]
    for chart in stage_charts(run, control):
        overlaid = [curve for curve in chart.curves if curve.control]
        assert [curve.label for curve in overlaid] == ["control run"], chart.name
    reward = stage_charts(run, control)[0]
    assert reward.curves[-1].values == [row["reward"] for row in control.metrics]


def test_fine_tuning_has_no_control_since_rewards_do_not_reach_it(make_run):
    stage = read_run(make_run()).stages[2]
    charts = stage_charts(stage, stage)
    assert [chart.title for chart in charts] == ["Loss", "Token accuracy", "Gradient norm"]
    assert not any(curve.control for chart in charts for curve in chart.curves)


def test_a_value_that_is_not_finite_is_a_gap():
    (chart,) = stage_charts(stage_of({"loss": 1.0}, {"loss": None}, {"loss": float("inf")}, {"loss": 2.0}))
    assert chart.curves[0].values == [
        1.0,
        pytest.approx(math.nan, nan_ok=True),
        pytest.approx(math.nan, nan_ok=True),
        2.0,
    ]


def test_a_metric_that_was_never_a_number_has_no_chart():
    assert stage_charts(stage_of({"loss": None, "reward": "high"})) == []


def test_lengths_are_drawn_once_when_every_completion_finished():
    row = {"completions/mean_length": 9.0, "completions/mean_terminated_length": 9.0}
    (chart,) = stage_charts(stage_of(row, row))
    assert [curve.label for curve in chart.curves] == ["all completions"]


def test_an_attempt_that_logged_nothing_leaves_no_mark():
    rows = [{"time": 10.0, "loss": 1.0}, {"time": 20.0, "loss": 1.0}, {"time": 90.0, "loss": 1.0}]
    attempts = [{"started": 5.0}, {"started": 50.0}, {"started": 60.0}, {"started": 95.0}]
    assert resumed_at(stage_of(*rows, attempts=attempts)) == [3]


def test_smooth_is_a_centred_mean_without_gaps():
    assert smooth([1.0, 2.0, math.nan, 6.0, 7.0], 3) == [1.5, 1.5, 4.0, 6.5, 6.5]
    assert math.isnan(smooth([math.nan], 3)[0])


@pytest.mark.parametrize(
    "values",
    [[0.5], [0.0, 0.0], [1e-6, 1e6], [-1.0, 1e6], [math.nan, 0.2, math.nan], [0.3] * 500],
    ids=["one", "zero", "wide", "negative", "gaps", "long"],
)
@pytest.mark.parametrize("percent", [True, False])
def test_any_curve_can_be_drawn(values, percent):
    chart = Chart("c", "Title", "unit", [Curve("a", list(range(len(values))), values)], percent)
    svg = inline_svg(draw_chart(chart), "c", "what it shows")
    assert svg.startswith("<svg viewBox=")
    assert svg.rstrip().endswith("</svg>")


def test_a_label_may_hold_anything():
    label = '_$\\frac{1$ <script>alert("x")</script> & "quoted"'
    curves = [Curve(label, [1, 2], [0.1, 0.2]), Curve("b", [1, 2], [0.3, 0.2])]
    svg = inline_svg(draw_chart(Chart("c", label, label, curves)), "c", label)
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    draw_intervals(label, [Interval(label, label, 0.5, 0.4, 0.6)])


def test_figures_follow_the_page_and_share_no_ids():
    def draw(name):
        curves = [Curve("a", [1, 2], [0.1, 0.2]), Curve("b", [1, 2], [0.3, 0.2], control=True)]
        return inline_svg(draw_chart(Chart(name, "T", "u", curves)), name, "d")

    first, second = draw("first"), draw("second")
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert set(re.findall(r"#(\w+)", first)) <= ids[0], "a colour that does not follow the scheme, or a dangling link"
    assert "var(--fig-first)" in first
    assert "var(--fig-control)" in first
    assert draw("first") == first
