"""Options of the maths judge: each changes a verdict, both ways, wherever the pair is decided."""

import inspect
import pickle
from dataclasses import fields

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.rewards import MathReward, RewardSpec
from trl_grpo_ext.verify.math import MathOptions, check_golds, read_completion, verify_math, verify_math_batch


def boxed(answer: str) -> str:
    return f"\\boxed{{{answer}}}"


@pytest.mark.parametrize(
    ("options", "gold", "completion", "by_default", "with_options"),
    [
        ({"tolerance": 0.01}, "1/3", boxed("0.333"), 0.0, 1.0),
        ({"tolerance": 0.01}, "1/3", boxed("0.3"), 0.0, 0.0),
        ({"tolerance": 0.01}, "\\pi", boxed("3.14"), 0.0, 1.0),
        ({"tolerance": 0.01}, "(\\pi, 1)", boxed("(3.14, 1)"), 0.0, 1.0),
        ({"tolerance": 0.01}, "\\lim_{x \\to 1} \\pi x", boxed("3.14"), 0.0, 1.0),
        ({"percent": "value"}, "50\\%", boxed("50"), 1.0, 0.0),
        ({"percent": "value"}, "50\\%", boxed("0.5"), 1.0, 1.0),
        ({"percent": "sign"}, "50\\%", boxed("0.5"), 1.0, 0.0),
        ({"percent": "sign"}, "50\\%", boxed("50.0\\%"), 1.0, 1.0),
        ({"percent": "sign"}, "\\frac{\\pi}{2}\\%", boxed("\\frac{\\pi}{200}"), 1.0, 0.0),
        ({"units": "required"}, "5\\text{ cm}", boxed("5"), 1.0, 0.0),
        ({"units": "required"}, "5\\text{ cm}", boxed("5.0 cm"), 1.0, 1.0),
        ({"units": "required"}, "5", boxed("5\\text{ cm}"), 1.0, 1.0),
        ({"units": "required"}, "5\\pi\\text{ cm}", boxed("\\pi \\cdot 5"), 1.0, 0.0),
        ({"units": "ignored"}, "5\\text{ cm}", boxed("5\\text{ m}"), 0.0, 1.0),
        ({"units": "ignored"}, "5\\text{ cm}", boxed("6\\text{ cm}"), 0.0, 0.0),
        ({"ordered_lists": True}, "1, 2", boxed("2, 1"), 1.0, 0.0),
        ({"ordered_lists": True}, "1, 2", boxed("1.0, 2"), 1.0, 1.0),
        ({"ordered_tuples": False}, "(1, 2)", boxed("(2, 1)"), 0.0, 1.0),
        ({"ordered_tuples": False}, "(1, 2)", boxed("(2, 2)"), 0.0, 0.0),
        ({"strict_parts": False}, "1, 2, 3", boxed("3, 1"), 0.0, 1.0),
        ({"strict_parts": False}, "\\pm 2", boxed("2"), 0.0, 1.0),
        ({"strict_parts": False}, "1, 2, 3", boxed("3, 4"), 0.0, 0.0),
        ({"strict_parts": False}, "1", boxed("1, 2"), 0.0, 0.0),
        ({"fallback": "none"}, "7", "and 3 + 4 is $7$", 1.0, 0.0),
        ({"fallback": "none"}, "7", "The answer is 7.", 1.0, 1.0),
        ({"answer_tags": ("solution",)}, "7", "<solution>7</solution> and not 8", 0.0, 1.0),
        ({"answer_tags": ("solution", "answer")}, "7", "<solution>8</solution><answer>7</answer>", 1.0, 1.0),
        ({"answer_tags": ()}, "7", "<answer>7</answer> and then 8", 1.0, 0.0),
        ({"choice_text": False}, "B", boxed("(B) 5"), 1.0, 0.0),
        ({"choice_text": False}, "B", boxed("(B)"), 1.0, 1.0),
        ({"thinking_end": "[/THINK]"}, "7", "[THINK] \\boxed{7}", 1.0, 0.0),
        ({"thinking_end": "[/THINK]"}, "7", "\\boxed{6} and \\boxed{8} [/THINK] so 7", 0.0, 1.0),
        ({"decimal_comma": True}, "3.5", boxed("3,5"), 0.0, 1.0),
        ({"decimal_comma": True}, "1234.5", boxed("1.234,5"), 0.0, 1.0),
        ({"decimal_comma": True}, "1; 2", boxed("2; 1"), 1.0, 1.0),
        ({"decimal_comma": True}, "1,2", boxed("2,1"), 1.0, 0.0),
        ({"decimal_comma": True}, "1, 2", boxed("2, 1"), 1.0, 1.0),
    ],
)
def test_each_option_changes_what_it_says(options, gold, completion, by_default, with_options):
    assert verify_math(gold, completion).value == by_default
    for _ in range(2):  # the second time from what was remembered
        assert verify_math(gold, completion, options=MathOptions(**options)).value == with_options
    assert verify_math(gold, completion).value == by_default


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"tolerance": 1}, "tolerance is 1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"tolerance": "0.1"}, "tolerance is '0.1'"),
        ({"percent": "maybe"}, "percent is 'maybe'; expected 'optional', 'value' or 'sign'"),
        ({"units": True}, "units is True"),
        ({"fallback": "last"}, "fallback is 'last'"),
        ({"ordered_lists": "yes"}, "ordered_lists is 'yes'; expected true or false"),
        ({"strict_parts": 1}, "strict_parts is 1"),
        ({"answer_tags": "answer"}, "answer_tags is 'answer'; expected a list"),
        ({"answer_tags": ["<answer>"]}, "answer_tags is"),
        ({"thinking_end": ""}, "thinking_end is ''"),
    ],
)
def test_values_are_checked(options, message):
    with pytest.raises(ConfigError, match=message.replace("[", "\\[")):
        MathOptions(**options)


def test_options_are_values():
    options = MathOptions(tolerance=0.1, answer_tags=["final"])
    assert options.answer_tags == ("final",)
    assert pickle.loads(pickle.dumps(options)) == options
    assert len({options, MathOptions(tolerance=0.1, answer_tags=("final",)), MathOptions()}) == 2


def test_options_from_a_mapping():
    assert MathOptions.parse({"percent": "sign"}) == MathOptions(percent="sign")
    assert MathOptions.parse(None) == MathOptions()
    with pytest.raises(ConfigError, match="no maths option 'tolerence'; did you mean 'tolerance'"):
        MathOptions.parse({"tolerence": 0.1})
    with pytest.raises(ConfigError, match="options is 3"):
        verify_math("1", "1", options=3)


def test_batches_and_references_take_options():
    options = MathOptions(decimal_comma=True)
    verdicts = verify_math_batch(["3.5", "4"], [boxed("3,5"), boxed("4,5")], options=options)
    assert [verdict.value for verdict in verdicts] == [1.0, 0.0]
    assert check_golds(["3,5"], options=options)[0].answer == "3.5"


def test_extraction_alone_takes_options():
    assert read_completion("<final>5</final>", MathOptions(answer_tags=("final",))).answer == "5"


def test_the_reward_takes_options_by_name():
    reward = (
        RewardSpec.parse({"name": "math", "params": {"percent": "value", "answer_tags": ["final"]}}).resolve().func
    )
    assert reward.options == MathOptions(percent="value", answer_tags=("final",))
    assert reward(prompts=["", ""], completions=[boxed("50"), boxed("0.5")], answer=["50\\%"] * 2) == [0.0, 1.0]
    assert pickle.loads(pickle.dumps(reward)).options == reward.options
    with pytest.raises(ConfigError, match="no parameter 'percents'; did you mean 'percent'"):
        RewardSpec.parse({"name": "math", "params": {"percents": "value"}}).resolve()
    with pytest.raises(ConfigError, match="percent is 'never'"):
        RewardSpec.parse({"name": "math", "params": {"percent": "never"}}).resolve()


def test_the_reward_has_every_option_with_its_default():
    parameters = inspect.signature(MathReward).parameters
    assert {item.name: item.default for item in fields(MathOptions)} == {
        item.name: parameters[item.name].default for item in fields(MathOptions)
    }


def test_a_mark_of_thinking_of_ones_own_may_stand_in_the_prompt():
    reward = MathReward(thinking_end="[/THINK]")
    never_closed = reward(prompts=["Why? [THINK]"], completions=["so \\boxed{7}"], answer=["7"])
    closed = reward(prompts=["Why? [THINK]"], completions=["so [/THINK] \\boxed{7}"], answer=["7"])
    assert (never_closed, closed) == ([0.0], [1.0])
