import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks import build_task
from trl_grpo_ext.tasks.arithmetic import careful_working, hurried_working, needs_carry


@pytest.mark.parametrize(
    ("a", "b", "careful", "hurried"),
    [
        (37, 48, ("7+8=15,3+4+1=8", 85), ("37+48", 75)),
        (12, 34, ("2+4=6,1+3=4", 46), ("12+34", 46)),
        (99, 83, ("9+3=12,9+8+1=18", 182), ("99+83", 172)),
        (60, 70, ("0+0=0,6+7=13", 130), ("60+70", 130)),
        (905, 195, ("5+5=10,0+9+1=10,9+1+1=11", 1100), ("905+195", 1090)),
    ],
)
def test_working(a, b, careful, hurried):
    assert careful_working(a, b) == careful
    assert hurried_working(a, b) == hurried
    assert needs_carry(a, b) == (careful[1] != hurried[1])


def operands(row):
    return tuple(map(int, row["prompt"][0]["content"].removesuffix("=?").split("+")))


def problems(split, seed, n):
    return {tuple(sorted(operands(row))) for row in build_task("arithmetic").rows(split, n, seed)}


def test_held_out_problems_are_in_no_training_split_of_any_seed():
    held_out = problems("eval", 0, 300) | problems("eval", 1, 300)
    training = set().union(*(problems(split, seed, 1500) for split in ("sft", "rl") for seed in range(3)))
    assert not held_out & training
    assert not problems("sft", 0, 1500) & problems("rl", 1, 1500)


def test_shares_are_kept():
    task = build_task("arithmetic", carry=0.8, careful=0.25)
    rows = task.rows("sft", 1000, seed=3)
    careful = [row for row in rows if "," in row["completion"][0]["content"]]
    assert sum(needs_carry(*operands(row)) for row in rows) == pytest.approx(800, abs=50)
    assert len(careful) == pytest.approx(250, abs=50)


def test_only_hurried_demonstrations_are_ever_wrong():
    for row in build_task("arithmetic").rows("sft", 300, seed=0):
        a, b = operands(row)
        text = row["completion"][0]["content"]
        assert row["answer"] == str(a + b)
        right = text.endswith(f"<answer>{a + b}</answer>")
        assert right == ("," in text or not needs_carry(a, b))


@pytest.mark.parametrize("params", [{"digits": 1}, {"digits": 7}, {"carry": 1.2}, {"careful": -0.1}])
def test_out_of_range_parameters_are_refused(params):
    with pytest.raises(ConfigError, match="out of range"):
        build_task("arithmetic", **params)
