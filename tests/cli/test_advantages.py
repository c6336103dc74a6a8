"""`trl-grpo-ext advantages compare` and `trl-grpo-ext list advantages --long`: hand calculations come out."""

import itertools
import json
import math
import re
from pathlib import Path

import pytest

from trl_grpo_ext import cli
from trl_grpo_ext.advantages import ADVANTAGES, bind_params, list_advantages
from trl_grpo_ext.cli.advantages import DEFAULT_VARIANTS, GROUP_SIZES, PASS_RATES, dead_share, parse_rewards


@pytest.fixture
def shown(capsys, monkeypatch):
    """Run the command in a terminal of 80 columns and return what it prints, line by line."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        code = cli.main(["advantages", "compare", *arguments])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        assert captured.err == ""
        return captured.out.splitlines()

    return run


def table(lines):
    """`{column: cells}` from all tables of the output; columns that are repeated have to agree."""
    rules = [index for index, line in enumerate(lines) if line.startswith(" ───")]
    columns = {}
    for rule, following in zip(rules, [*rules[1:], len(lines) + 1], strict=True):
        names = lines[rule - 1].replace(" *", "*").replace("G = ", "G=").replace("pass rate p", "p").split()
        body = itertools.takewhile(lambda line: line.startswith(" "), lines[rule + 1 : following - 1])
        rows = [line.split() for line in body if line.strip()]
        for index, row in enumerate(rows):
            if len(row) == len(names) - 1:  # the number of a group stands in its first row
                rows[index] = [rows[index - 1][0], *row]
        for name, *cells in zip(names, *rows, strict=True):
            assert columns.setdefault(name, cells) == cells
    return columns


def numbers(cells):
    return [float(cell) for cell in cells]


def test_two_right_of_four(shown):
    lines = shown("--rewards", "1,0,1,0")
    assert lines[0] == "mean 0.5, std 0.5 (divisor n)"
    columns = table(lines)
    assert numbers(columns["reward"]) == [1, 0, 1, 0]
    assert columns["raw"] == ["0.5000", "-0.5000", "0.5000", "-0.5000"]
    assert columns["normalised"] == ["1.0000", "-1.0000", "1.0000", "-1.0000"]


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_raw_is_one_minus_the_pass_rate_or_minus_it(size, shown):
    for right in range(1, size):
        rate = right / size
        columns = table(shown("--rewards", ",".join("1" * right + "0" * (size - right)), "--variants", "rloo"))
        assert numbers(columns["raw"]) == pytest.approx([1 - rate] * right + [-rate] * (size - right), abs=5e-5)
        root = math.sqrt(rate * (1 - rate))
        expected = [(1 - rate) / root] * right + [-rate / root] * (size - right)
        assert numbers(columns["normalised"]) == pytest.approx(expected, abs=6e-5)
        others = size / (size - 1)
        assert numbers(columns["rloo"])[0] == pytest.approx((1 - rate) * others, abs=6e-5)


def test_one_right_of_eight_and_seven_right_of_eight(shown):
    assert table(shown("--rewards", "1,0,0,0,0,0,0,0"))["raw"] == ["0.8750"] + ["-0.1250"] * 7
    assert table(shown("--rewards", "1,1,1,1,1,1,1,0"))["raw"] == ["0.1250"] * 7 + ["-0.8750"]


@pytest.mark.parametrize(
    "rewards", ["0,0,0,0", "1,1,1,1", "0.1,0.1,0.1", "-2.7,-2.7", "0.7,none,0.7", "5", "none,nan"]
)
def test_nothing_when_all_agree(rewards, shown):
    columns = table(shown("--rewards", rewards, "--variants", "rloo,grpo"))
    for name in ("raw", "normalised", "rloo", "grpo"):
        assert set(columns[name]) == {"0"}, name


def test_a_completion_that_could_not_be_judged_does_not_count(shown):
    lines = shown("--rewards", "1,null,0,NaN,none", "--variants", "grpo")
    assert lines[0] == "mean 0.5, std 0.5 (divisor n), over 2 of 5 completions"
    columns = table(lines)
    assert columns["reward"] == ["1", "none", "0", "none", "none"]
    assert columns["normalised"] == ["1.0000", "0", "-1.0000", "0", "0"]
    assert columns["grpo"] == ["0.7070", "0", "-0.7070", "0", "0"]  # sample deviation 0.7071, + 1e-4


def test_several_groups_are_one_batch(shown):
    arguments = ("--rewards", "1,0,0,0", "--rewards", "1,1,1,1", "--variants", "ppo_lite")
    lines = shown(*arguments, "--params", '{"ppo_lite": {"ddof": 0, "eps": 0}}')
    assert lines[0] == "group 1: mean 0.25, std 0.433013 (divisor n)"
    assert lines[1].startswith("group 2: mean 1, std 0 (divisor n); all rewards agree")
    columns = table(lines)
    assert columns["group"] == ["1"] * 4 + ["2"] * 4
    whole = math.sqrt(5 / 8 * 3 / 8)  # of the rewards of both groups
    assert numbers(columns["ppo_lite"][:4]) == pytest.approx([0.75 / whole] + [-0.25 / whole] * 3, abs=6e-5)
    assert columns["ppo_lite"][4:] == ["0"] * 4


def test_parameters_reach_the_estimator(shown):
    arguments = ("--rewards", "1,0,0,0", "--variants", "w_reinforce,passk_training")
    params = {"w_reinforce": {"positive_weight": 0.25}, "passk_training": {"k": 2}}
    columns = table(shown(*arguments, "--params", json.dumps(params)))
    assert columns["w_reinforce"] == ["0.2500", "-1.0000", "-1.0000", "-1.0000"]
    # rho = 1 - C(3, 2) / C(4, 2) = 1/2, sigma = 1/2: wrong (1 - rho - C(2, 1) / C(3, 1)) / sigma = -1/3
    assert numbers(columns["passk_training"]) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3], abs=1e-4)


def test_a_negative_reward_may_come_first(shown):
    assert table(shown("--rewards", "-1,1"))["raw"] == ["-1.0000", "1.0000"]
    assert table(shown("--rewards=-1,1"))["raw"] == ["-1.0000", "1.0000"]


def test_the_default_fits_80_columns_and_says_how_to_get_the_rest(shown):
    for arguments in (["--rewards", "1,0,1,0"], ["--rewards", "1,0,1,0", "--rewards", "0,0,0,1"]):
        lines = shown(*arguments)
        assert len([line for line in lines if line.startswith(" ───")]) == 1
        assert {"raw", "normalised", *DEFAULT_VARIANTS} <= table(lines).keys()
        assert "--variants all" in lines[-1]


def test_all_shows_every_estimator_that_needs_rewards_only(shown):
    lines = shown("--rewards", "1,0,1,0,0,0", "--rewards", "1,1,0,1,1,0", "--variants", "all")
    assert max(map(len, lines)) <= 80
    assert "…" not in "\n".join(lines)
    estimators = [bind_params(name) for name in list_advantages()]
    expected = {e.name for e in estimators if e.layout == "rewards" and not e.inputs}
    assert len(expected) > 20
    columns = table(lines)
    assert expected == columns.keys() - {"group", "#", "reward", "raw", "normalised"}
    assert all(math.isfinite(value) for name in expected for value in numbers(columns[name]))
    assert "Left out" not in "\n".join(lines)


def test_all_leaves_out_what_refuses_these_rewards(shown):
    lines = shown("--rewards", "1,0", "--variants", "all", "--params", '{"qae": {"quantile": 2}}')
    assert "qae" not in table(lines)
    assert "Left out: qae, since quantile is 2;" in "\n".join(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rewards", "1,0", "--variants", "opo"], "'opo' needs 'lengths'"),
        (["--rewards", "1,0", "--variants", "rloo,dcpo_sas"], "'dcpo_sas' needs 'times' and 'old_mean' and 'old_std'"),
        (["--rewards", "1,0", "--variants", "gdpo"], "'gdpo' needs 'components'"),
        (["--rewards", "1,0", "--variants", "gigpo"], "'gigpo' needs 'step_rewards' and 'anchors'"),
        (["--rewards", "1,0", "--variants", "shape/kimi_length"], "'shape/kimi_length' shapes rewards"),
        (["--rewards", "1,0", "--variants", "select/dapo_dynamic"], "'select/dapo_dynamic' selects completions"),
        (["--rewards", "1,0", "--variants", "kl/k3"], "'kl/k3' estimates the KL divergence"),
        (["--rewards", "1,0", "--variants", "rlo"], "unknown advantage 'rlo'; did you mean 'rloo'"),
        (["--rewards", "1,0", "--rewards", "1"], "rewards: groups have different sizes [1, 2]"),
        (["--rewards", "1,x"], "--rewards '1,x': 'x' is not a number"),
        (["--rewards", "1,,0"], "--rewards '1,,0': '' is not a number"),
        (["--rewards", "1,inf"], "--rewards '1,inf': 'inf' is too large"),
        (["--rewards", "-1e300,1"], "--rewards '-1e300,1': '-1e300' is too large"),
        (["--rewards", "1,0", "--params", "k=2"], "--params 'k=2' is not JSON"),
        (["--rewards", "1,0", "--params", '{"k": 2}'], "--params '{\"k\": 2}' does not map estimators to parameters"),
        (["--rewards", "1,0", "--params", '{"qae": {}}'], "--params sets 'qae', which is not shown"),
        (["--rewards", "1,0", "--params", '{"grpo": {"epsilon": 1}}'], "advantage 'grpo' has no parameter 'epsilon'"),
        (
            ["--rewards", "1,0", "--variants", "pods", "--params", '{"pods": {"m": "two"}}'],
            "advantage 'pods': m='two' is a str",
        ),
        ([], "the following arguments are required: --rewards"),
        (["--pass-rates", "--variants", "grpo"], "the following arguments are required: --rewards"),
        (["--rewards"], "argument --rewards: expected one argument"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert cli.main(["advantages", "compare", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def test_parse_rewards():
    assert parse_rewards(" 1, -0.5,none ,NULL,nan") == [1.0, -0.5, None, None, None]


def test_dead_share():
    assert dead_share(0.5, 2) == 0.5  # two coins agree half of the time
    assert dead_share(0.5, 4) == 0.125
    assert dead_share(0.9, 2) == pytest.approx(0.82)
    assert dead_share(0.25, 8) == pytest.approx(dead_share(0.75, 8))


def test_pass_rates(shown):
    columns = table(shown("--pass-rates"))
    assert numbers(columns["p"]) == pytest.approx([0.05 * step for step in range(1, 20)])
    assert len(PASS_RATES) == 19
    assert list(columns)[1:] == [f"G={size}" for size in GROUP_SIZES] == ["G=2", "G=4", "G=8", "G=16", "G=32"]
    assert columns["G=4"][9] == "0.1250"
    assert columns["G=2"][0] == "0.9050"
    assert columns["G=32"][9] == "<0.0001"


@pytest.mark.parametrize(("rewards", "marked"), [("1,0,1,0", "G=4*"), ("1,0,1", "G=3*")])
def test_pass_rates_mark_the_group_size_of_the_rewards(rewards, marked, shown):
    lines = shown("--rewards", rewards, "--pass-rates")
    heading = next(line for line in lines if "pass rate p" in line)
    assert marked in heading.replace("G = ", "G=").replace(" *", "*")
    assert lines[-1] == "* the group size of --rewards"


def test_the_long_list_says_what_every_entry_is_and_needs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # nothing wraps
    assert cli.main(["list", "advantages", "--long"]) == 0
    found = re.findall(r"^  (\S+) +(per .*)\n      (.+)$", capsys.readouterr().out, re.MULTILINE)
    entries = {name: line for name, line, _ in found}
    texts = {name: text for name, _, text in found}
    assert entries.keys() == {*ADVANTAGES.names()}
    assert entries["grpo"] == "per completion"
    assert entries["opo"] == "per completion, needs lengths"
    assert entries["mapo"] == "per completion, needs [correct]"
    assert entries["gdpo"] == "per completion, needs several rewards, [weights]"
    assert entries["gigpo"] == "per step, needs step rewards, anchors"
    assert entries["rlsd"] == "per token, needs logp, teacher_logp"
    assert texts["opo"] == "OPO: the reward minus the mean reward of its group, weighted by length"


def test_long_is_for_advantages(capsys):
    assert cli.main(["list", "rewards", "--long"]) == 2
    assert capsys.readouterr().err.startswith("error: --long is for `trl-grpo-ext list advantages`")


def test_levels_are_those_of_the_golden_records():
    expected = {"sequence": "completion", "multi": "completion", "shape": "completion", "select": "completion"}
    expected |= {"step": "step", "token": "token", "kl": "token"}
    records = (Path(__file__).parents[1] / "cases" / "advantages_golden.jsonl").read_text().splitlines()
    kinds = {record["variant"]: record["kind"] for record in map(json.loads, records)}
    for name in ADVANTAGES.names():
        assert bind_params(name).level == expected[kinds[name]], name
