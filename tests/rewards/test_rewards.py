"""The rewards themselves: each hole of public reward code is a case here."""

import json
import pickle
import subprocess
import sys
import time

import pytest

import trl_grpo_ext.rewards as rewards
from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.rewards import (
    FormatReward,
    LanguageReward,
    LengthReward,
    MathReward,
    get_reward,
    list_rewards,
    register_reward,
)
from trl_grpo_ext.rewards.language import consistency
from trl_grpo_ext.verdict import Verdict


def format_score(text: str, prompt: str = "1+1?", **params) -> float:
    return FormatReward(**params)(prompts=[prompt], completions=[text])[0]


@pytest.mark.parametrize(
    "text",
    [
        "<think>one more</think><answer>2</answer>",
        "\n<think>\none more\n</think>\n\n<answer>\n2\n</answer>\n",
        "<think>1 < 2 and 3 > 2</think> <answer>$x<5$</answer>",
    ],
)
def test_format_accepts_the_contract(text):
    assert format_score(text) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "<think></think><answer>2</answer>",
        "<think>  </think><answer>2</answer>",
        "<think>a</think><answer></answer>",
        "<think></think>",
        "<think>a</think>",
        "<answer>2</answer>",
        "<answer>2</answer><think>a</think>",
        "<think>a<answer>2</answer></think>",
        "<think>a<answer></think>2</answer>",
        "<think>a</think><answer>2</answer> trailing junk",
        "leading junk <think>a</think><answer>2</answer>",
        "<think>a</think> between <answer>2</answer>",
        "<think>a</think></think><answer>2</answer>",
        "<think><think>a</think><answer>2</answer>",
        "<think>a</think><answer>2</answer><answer>3</answer>",
        "<think>a</think><answer>2</answer><think>b</think><answer>3</answer>",
        "<think>a</think><answer>2",
        "<THINK>a</THINK><ANSWER>2</ANSWER>",
    ],
)
def test_format_refuses_the_rest(text):
    assert format_score(text) == 0.0


def test_format_knows_where_the_tag_was_opened():
    closed = "one more</think><answer>2</answer>"
    assert format_score(closed) == 0.0
    assert format_score(closed, opening_tag="in_prompt") == 1.0
    assert format_score(closed, prompt="1+1?\n<think>\n") == 1.0
    assert format_score("<think>" + closed, prompt="1+1?\n<think>\n") == 0.0
    assert format_score("<think>" + closed, prompt="1+1?\n<think>\n", opening_tag="in_completion") == 1.0
    messages = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "<think>"}]
    assert FormatReward()(prompts=[messages], completions=[[{"role": "assistant", "content": closed}]]) == [1.0]
    with pytest.raises(ConfigError, match="opening_tag is 'prompt'"):
        FormatReward(opening_tag="prompt")


def test_math_reads_strings_and_messages():
    completions = ["\\boxed{2}", [{"role": "assistant", "content": "\\boxed{3}"}]]
    assert MathReward()(prompts=["a", "b"], completions=completions, answer=["2", "2"]) == [1.0, 0.0]
    blocks = [[{"role": "assistant", "content": [{"type": "text", "text": "\\boxed{2}"}]}]]
    assert MathReward()(prompts=["a"], completions=blocks, answer=["2"]) == [1.0]
    tools = [{"role": "assistant", "content": None}, {"role": "tool", "content": "2"}]
    assert MathReward()(prompts=["a"], completions=[tools], answer=["2"]) == [0.0]


def test_math_finds_its_column():
    call = {"prompts": ["a"], "completions": ["\\boxed{2}"]}
    assert MathReward()(**call, solution=["so \\boxed{2}"]) == [1.0]
    assert MathReward()(**call, answer=["2"], solution=["3"]) == [1.0]
    assert MathReward(answer_column="target")(**call, target=["2"], answer=["3"]) == [1.0]
    with pytest.raises(DataError, match="'answer' or 'solution'; the dataset has gold, level"):
        MathReward()(**call, gold=["2"], level=[1], trainer_state=None)
    with pytest.raises(DataError, match="'target'"):
        MathReward(answer_column="target")(**call, answer=["2"])


def test_math_gives_none_and_not_zero_where_it_cannot_judge(monkeypatch):
    call = {"prompts": ["a", "b"], "completions": ["\\boxed{2}", "\\boxed{2}"]}
    assert MathReward()(**call, answer=["", "2"]) == [None, 1.0]
    assert MathReward()(**call, answer=["\\boxed{}", None]) == [None, None]
    failed = [Verdict(None, "infra_error"), Verdict(0.0, "timeout")]
    monkeypatch.setattr("trl_grpo_ext.rewards.accuracy.verify_math_batch", lambda *args, **kwargs: failed)
    assert MathReward()(**call, answer=["x", "y"]) == [None, 0.0]


def test_empty_never_equals_empty():
    assert MathReward()(prompts=["a"], completions=[""], answer=[""]) == [None]
    assert MathReward()(prompts=["a"], completions=[""], answer=["2"]) == [0.0]


def test_math_reads_no_lucky_box_from_unfinished_reasoning():
    call = {"completions": ["I think \\boxed{2} but let me"], "answer": ["2"]}
    assert MathReward()(prompts=["1+1?<think>\n"], **call) == [0.0]
    assert MathReward(opening_tag="in_prompt")(prompts=["1+1?"], **call) == [0.0]
    finished = ["so</think> \\boxed{2}"]
    assert MathReward(opening_tag="in_prompt")(prompts=["1+1?"], completions=finished, answer=["2"]) == [1.0]


@pytest.mark.parametrize("end", ["[END]", "[/T]", "</think>"])
def test_no_answer_is_read_from_unfinished_reasoning_whatever_ends_it(end):
    texts = ["so \\boxed{2}", f"so \\boxed{{3}}{end} \\boxed{{2}}", f"so \\boxed{{2}}{end} \\boxed{{3}}", f"so {end}"]
    call = {"prompts": ["1+1?"] * 4, "completions": texts, "answer": ["2"] * 4}
    assert MathReward(thinking_end=end, opening_tag="in_prompt")(**call) == [0.0, 1.0, 0.0, 0.0]
    # Where the completion opens its thinking, or does not think, a text without the mark is all answer.
    assert MathReward(thinking_end=end, opening_tag="in_completion")(**call)[:2] == [1.0, 1.0]
    assert MathReward(thinking_end=end)(**call)[:2] == [1.0, 1.0]


def test_math_logs_what_it_did():
    extra, metrics = {}, {}
    MathReward()(
        prompts=["a"] * 4,
        completions=["\\boxed{2}", "\\boxed{3}", "", "\\boxed{2}"],
        answer=["2", "2", "2", ""],
        log_extra=extra.__setitem__,
        log_metric=metrics.__setitem__,
    )
    assert extra["math_kind"] == ["correct", "wrong", "no_answer", "unscorable"]
    assert extra["math_answer"][:3] == ["2", "3", ""]
    assert all(isinstance(reason, str) for reason in extra["math_reason"])
    assert metrics["math_reward/timeout_frac"] == 0.0
    assert metrics["math_reward/no_answer_frac"] == 0.25
    assert (
        metrics["math_reward/seconds"] >= metrics["math_reward/seconds_p95"] >= metrics["math_reward/seconds_p50"] >= 0
    )


def test_length_is_the_published_formula_in_tokens():
    reward = LengthReward(max_completion_length=100, cache=20)
    ids = [[0] * n for n in (0, 80, 81, 90, 100, 101, 1000)]
    assert reward(completion_ids=ids) == [0.0, 0.0, -0.05, -0.5, -1.0, -1.0, -1.0]
    trl = pytest.importorskip("trl.rewards").get_soft_overlong_punishment(100, 20)
    assert reward(completion_ids=ids) == trl(completion_ids=ids)


def test_length_does_not_depend_on_the_rest_of_the_batch():
    reward = LengthReward(max_completion_length=100, cache=20)
    assert reward(completion_ids=[[0] * 90, [0] * 5]) == [*reward(completion_ids=[[0] * 90]), 0.0]


def test_length_needs_token_ids():
    with pytest.raises(DataError, match="token ids"):
        LengthReward()(prompts=["a"], completions=["b"])
    with pytest.raises(ConfigError, match="cache is 0"):
        LengthReward(max_completion_length=10, cache=0)
    with pytest.raises(ConfigError, match="cache is 20"):
        LengthReward(max_completion_length=10, cache=20)


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("first add the two numbers", "en", 1.0),
        ("first add 然后", "en", 0.5),
        ("先加 然后乘", "zh", 1.0),
        ("先加 then", "zh", 2 / 3),
        ("сначала сложим and", "ru", 2 / 3),
        ("まず足す", "ja", 1.0),
        ("먼저 더한다", "ko", 1.0),
        ("let $x = \\text{数}$ and `数` be ```python\n数 = 1\n``` done", "en", 1.0),
        ("so \\[ 数 \\] and \\(数\\) then π and x", "en", 1.0),
        ("\\begin{align} 数 &= 1 \\end{align} done", "en", 1.0),
        ("1 + 1 = 2", "en", None),
        ("   ", "en", 0.0),
    ],
)
def test_language_share(text, language, share):
    assert consistency(text, language) == (pytest.approx(share) if share is not None else None)


def test_language_reads_the_reasoning_and_the_row():
    completions = ["<think>add them</think><answer>二</answer>", "<think>先加</think>"]
    assert LanguageReward()(completions=completions) == [1.0, 0.0]
    assert LanguageReward(language_column="lang")(completions=completions, lang=["en", "zh-CN"]) == [1.0, 1.0]
    assert LanguageReward(language_column="lang")(completions=completions, lang=["en", None]) == [1.0, None]
    with pytest.raises(DataError, match="needs the column 'lnag'; the dataset has lang"):
        LanguageReward(language_column="lnag")(completions=completions, lang=["en", "en"])
    with pytest.raises(ConfigError, match="unknown language 'english'"):
        LanguageReward("english")


def test_language_is_linear_in_the_text():
    started = time.monotonic()
    for piece in ("\\begin{a}", "\\[", "\\(", "$", "```", "<", "\\"):
        consistency(piece * (200_000 // len(piece)), "en")
    assert time.monotonic() - started < 20


def test_ready_rewards_are_what_trl_expects():
    for name in ("math_reward", "format_reward", "length_reward", "language_reward"):
        reward = getattr(rewards, name)
        assert reward.__name__ == name
        assert getattr(rewards, name) is reward
        copy = pickle.loads(pickle.dumps(reward))
        assert vars(copy) == vars(reward)
        out = copy(
            prompts=["a"],
            completions=["<think>sum it</think><answer>2</answer>"],
            completion_ids=[[1, 2]],
            answer=["2"],
            trainer_state=None,
            log_extra=lambda *args: None,
            log_metric=lambda *args: None,
        )
        assert out == [0.0 if name == "length_reward" else 1.0]
    assert pickle.loads(pickle.dumps(MathReward(answer_column="t", timeout=3.0))).timeout == 3.0


def test_names():
    assert {"code", "code_fraction", "math", "format", "length", "language"} <= set(list_rewards())
    assert isinstance(get_reward("math", timeout=2.0), MathReward)
    with pytest.raises(ConfigError, match="did you mean 'math'"):
        get_reward("maths")
    with pytest.raises(ConfigError, match="no parameter 'time_out'; did you mean 'timeout'"):
        get_reward("math", time_out=2.0)


def test_outsiders_register(monkeypatch):
    monkeypatch.setattr(rewards.REWARDS, "_objects", dict(rewards.REWARDS._objects))

    @register_reward("half")
    def half_reward(completions, share=0.5, **kwargs):
        return [share] * len(completions)

    assert "half" in list_rewards()
    assert get_reward("half")(completions=["a"]) == [0.5]
    assert get_reward("half", share=0.25)(completions=["a"]) == [0.25]
    with pytest.raises(ConfigError, match="registered twice"):
        register_reward("half")(half_reward)


def test_import_is_light():
    code = (
        "import sys, json, trl_grpo_ext.rewards as r\n"
        "r.math_reward, r.format_reward, r.length_reward, r.language_reward, r.code_reward, r.code_fraction_reward\n"
        "r.RewardSpec, r.resolve_rewards, r.Composition\n"
        "print(json.dumps([m for m in ('torch', 'trl', 'transformers', 'sympy', 'math_verify') if m in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == []
