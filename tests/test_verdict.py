"""A verdict where a number or a truth value is expected."""

import math

import pytest

from trl_grpo_ext import Verdict, verify_math


def test_a_wrong_answer_is_not_true():
    assert verify_math("2", r"\boxed{2}")
    assert not verify_math("2", r"\boxed{3}")
    assert not Verdict(0.5, "wrong")
    assert not Verdict(None, "infra_error")


def test_a_verdict_is_its_value_as_a_number():
    assert float(Verdict(0.5, "wrong")) == 0.5
    assert math.isnan(float(Verdict(None, "unscorable")))


@pytest.mark.parametrize(("value", "kind"), [(None, "wrong"), (0.0, "infra_error"), (1.0, "right")])
def test_value_and_kind_must_fit(value, kind):
    with pytest.raises(ValueError, match=r"does not fit|unknown verdict kind"):
        Verdict(value, kind)
