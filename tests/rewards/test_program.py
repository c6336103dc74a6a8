"""The rewards `code` and `code_fraction`, with the sandbox of this machine."""

import asyncio
import copy
import pickle
import subprocess
import sys
import threading

import pytest

from trl_grpo_ext.errors import ConfigError, DataError, SandboxError
from trl_grpo_ext.rewards import CodeFractionReward, CodeReward, RewardSpec, get_reward
from trl_grpo_ext.sandbox import Isolation
from trl_grpo_ext.sandbox.jobs import Called


CASE = {
    "format": "function_call",
    "tests": {"fn_name": "f", "inputs": [[1], [2], [-3], [4]], "outputs": [1, 2, 3, 4]},
}
WEIGHED = {**CASE, "weights": [1, 1, 5, 1]}
RIGHT = "It is `abs`.\n```python\ndef f(x):\n    return abs(x)\n```"
PARTLY = "```python\ndef f(x):\n    return x\n```"
ENDLESS = "```python\ndef f(x):\n    while True:\n        pass\n```"
BROKEN = {"format": "asserts", "tests": []}


def batch(*completions, case=CASE):
    cases = case if isinstance(case, list) else [case] * len(completions)
    return {"prompts": ["|x|?"] * len(completions), "completions": list(completions), "case": cases}


class Failing:
    """A sandbox without a machine behind it."""

    workers = 2

    def __init__(self, level="namespaces", starts=True):
        self.level, self.starts = level, starts
        self.calls = 0

    def isolation(self):
        if not self.starts:
            raise SandboxError("this machine isolates programs at the level limits. Level 'restricted' is required")
        return Isolation(self.level, {})

    def call(self, job):
        self.calls += 1
        raise SandboxError("the zygote has ended")
        yield Called("ok")


@pytest.fixture
def use(monkeypatch):
    """Let another sandbox be the one that a specification opens."""

    def use(box):
        monkeypatch.setattr("trl_grpo_ext.rewards.program.open_sandbox", lambda spec: box)
        monkeypatch.setattr("trl_grpo_ext.verify.code.judge.open_sandbox", lambda spec: box)

    return use


@pytest.mark.sandbox
def test_all_or_nothing_and_a_share():
    call = batch(RIGHT, PARTLY, "", "no code")
    assert CodeReward()(**call) == [1.0, 0.0, 0.0, 0.0]
    assert CodeFractionReward()(**call) == [1.0, 0.75, 0.0, 0.0]
    assert CodeReward(credit="fraction")(**call) == CodeFractionReward()(**call)
    weighed = batch(RIGHT, PARTLY, case=WEIGHED)
    assert CodeFractionReward()(**weighed) == [1.0, 3 / 8]
    assert CodeFractionReward(credit="fraction")(**weighed) == [1.0, 0.75]
    assert CodeFractionReward(credit="all")(**weighed) == [1.0, 0.0]


@pytest.mark.sandbox
def test_what_cannot_be_judged_is_none_and_not_zero():
    assert CodeReward()(**batch(RIGHT, RIGHT, RIGHT, case=[CASE, BROKEN, None])) == [1.0, None, None]


@pytest.mark.sandbox
def test_messages_and_json():
    import json

    completions = [[{"role": "assistant", "content": RIGHT}], [{"role": "assistant", "content": "no"}]]
    prompts = [[{"role": "user", "content": "|x|?"}]] * 2
    assert CodeReward()(prompts=prompts, completions=completions, case=[json.dumps(CASE)] * 2) == [1.0, 0.0]


@pytest.mark.sandbox
def test_conventions_are_those_asked_for():
    bare = "def f(x):\n    return abs(x)"
    assert CodeReward()(**batch(bare)) == [0.0]
    assert CodeReward(fence="optional")(**batch(bare)) == [1.0]
    rounded = {"format": "stdio", "tests": [{"input": "", "output": "0.5"}]}
    program = "```python\nprint(0.5001)\n```"
    assert CodeReward()(**batch(program, case=rounded)) == [0.0]
    assert CodeReward(float_tolerance=1e-3)(**batch(program, case=rounded)) == [1.0]
    assert CodeReward(thinking_end="[/T]")(**batch(f"[T]{PARTLY}[/T]{RIGHT}")) == [1.0]


@pytest.mark.sandbox
def test_no_program_is_read_from_unfinished_reasoning():
    call = batch(RIGHT)
    assert CodeReward()(**{**call, "prompts": ["|x|?<think>\n"]}) == [0.0]
    assert CodeReward(opening_tag="in_prompt")(**call) == [0.0]
    assert CodeReward(opening_tag="in_prompt")(**batch(f"easy</think>{RIGHT}")) == [1.0]


@pytest.mark.sandbox
@pytest.mark.parametrize("end", ["[END]", "[/T]", "</think>", "<|end_of_thought|>"])
def test_no_program_is_read_from_unfinished_reasoning_whatever_ends_it(end):
    call = batch(
        RIGHT, f"{PARTLY}{end}\n{RIGHT}", f"{RIGHT}{end}\n{PARTLY}", f"{RIGHT}{end}", "", case=[CASE] * 4 + [BROKEN]
    )
    opened = CodeReward(thinking_end=end, opening_tag="in_prompt")
    assert opened(**call) == [0.0, 1.0, 0.0, 0.0, None]
    assert CodeReward(thinking_end=end, opening_tag="in_completion")(**call)[:2] == [1.0, 1.0]
    assert CodeReward(thinking_end=end)(**call)[:2] == [1.0, 1.0]


def test_the_column_is_named_in_the_error():
    call = {"prompts": ["a"], "completions": [RIGHT]}
    with pytest.raises(
        DataError, match=r"needs the reference in column 'case'; the dataset has tests\. .*case_column"
    ):
        CodeReward()(**call, tests=[CASE])
    with pytest.raises(DataError, match="in column 'tests'; the dataset has case"):
        CodeReward(case_column="tests")(**call, case=[CASE], trainer_state=None)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"credit": "some"}, "credit is 'some'"),
        ({"fence": "maybe"}, "fence is 'maybe'"),
        ({"float_tolerance": 2}, "float_tolerance is 2"),
        ({"opening_tag": "prompt"}, "opening_tag is 'prompt'"),
        ({"thinking_end": ""}, "thinking_end is ''"),
    ],
)
def test_values_out_of_range_are_refused(params, message):
    with pytest.raises(ConfigError, match=message):
        CodeReward(**params)


@pytest.mark.sandbox
def test_it_logs_what_it_did():
    extra, metrics = {}, {}
    reward = CodeFractionReward(credit="all")
    case = {**CASE, "time_limit": 0.5}
    reward(
        **batch(RIGHT, PARTLY, "", ENDLESS, case=case),
        log_extra=extra.__setitem__,
        log_metric=metrics.__setitem__,
    )
    assert extra["code_kind"] == ["correct", "wrong", "no_answer", "timeout"]
    assert extra["code_reason"][:2] == ["passed 4 of 4 tests", "test 3 of 4: f(-3): expected 3, got -3"]
    assert extra.keys() == {"code_kind", "code_reason"}
    name = "code_fraction_reward"
    assert metrics[f"{name}/timeout_frac"] == metrics[f"{name}/no_answer_frac"] == 0.25
    assert metrics[f"{name}/infra_frac"] == 0.0
    assert metrics[f"{name}/seconds"] >= metrics[f"{name}/seconds_p95"] >= 0.5 > metrics[f"{name}/seconds_p50"] >= 0
    CodeReward()(prompts=[], completions=[], case=[], log_metric=metrics.__setitem__)
    assert not any(key.startswith("code_reward/") for key in metrics)


def test_a_sandbox_that_fails_scores_nothing(use):
    box = Failing()
    use(box)
    metrics, extra = {}, {}
    values = CodeReward()(**batch(RIGHT, PARTLY, ""), log_metric=metrics.__setitem__, log_extra=extra.__setitem__)
    assert values == [None, None, 0.0]
    assert box.calls == 2
    assert metrics["code_reward/infra_frac"] == pytest.approx(2 / 3)
    assert "the zygote has ended" in extra["code_reason"][0]


def test_a_batch_that_nobody_can_judge_is_an_error(use):
    use(Failing())
    with pytest.raises(SandboxError, match="any of the 2 programs of a batch; the first reason: the zygote has ended"):
        CodeReward()(**batch(RIGHT, PARTLY))
    assert CodeReward()(**batch("", "")) == [0.0, 0.0]
    assert CodeReward()(**batch(RIGHT, RIGHT, case=[BROKEN, CASE])) == [None, None]
    assert CodeReward()(**batch()) == []


def test_a_machine_that_cannot_isolate_is_refused_at_the_first_call(use):
    use(Failing(starts=False))
    reward = CodeReward()
    for _ in range(2):
        with pytest.raises(SandboxError, match="Level 'restricted' is required"):
            reward(**batch(RIGHT))


def test_a_sandbox_is_named_or_it_is_an_error():
    with pytest.raises(ConfigError, match="unknown sandbox 'lokal'; did you mean 'local'"):
        CodeReward(sandbox="lokal")(**batch(RIGHT))
    with pytest.raises(ConfigError, match="has no option 'worker'"):
        CodeReward(sandbox={"name": "local", "worker": 1})(**batch(RIGHT))


@pytest.mark.sandbox
def test_copies_hold_options_only():
    reward = CodeReward(credit="fraction", sandbox={"name": "local", "workers": 1})
    fresh = dict(vars(reward))
    assert reward(**batch(PARTLY)) == [0.75]
    assert vars(reward) != fresh
    for twin in (pickle.loads(pickle.dumps(reward)), copy.deepcopy(reward)):
        assert vars(twin) == fresh
        assert twin(**batch(PARTLY)) == [0.75]


@pytest.mark.sandbox
def test_another_process_opens_a_sandbox_of_its_own():
    reward = CodeReward()
    reward(**batch(RIGHT))
    code = (
        "import pickle, sys; reward, call = pickle.load(sys.stdin.buffer); "
        "assert 'torch' not in sys.modules; print(reward(**call))"
    )
    sent = pickle.dumps((reward, batch(RIGHT, PARTLY)))
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, timeout=120, check=True)
    assert done.stdout.decode().strip() == "[1.0, 0.0]"


@pytest.mark.sandbox
def test_threads_and_event_loops_get_the_same_numbers():
    reward = CodeFractionReward()
    call = batch(RIGHT, PARTLY, "", RIGHT)
    expected = reward(**call)
    found = []
    threads = [threading.Thread(target=lambda: found.append(reward(**call))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4

    async def score():
        # What TRL's asynchronous trainer does with a reward that is no coroutine.
        return await asyncio.gather(*[asyncio.to_thread(reward, **call) for _ in range(3)])

    async def within():
        return reward(**call)

    assert asyncio.run(score()) == [expected] * 3
    assert asyncio.run(within()) == expected


def test_names_and_defaults():
    assert isinstance(get_reward("code"), CodeReward)
    assert get_reward("code").options.credit == "all"
    assert get_reward("code_fraction").options.credit == "weighted"
    for name in ("code", "code_fraction"):
        spec = RewardSpec.parse(name).resolve()
        assert (spec.mode, spec.required) == ("add", True)
        assert spec.func.__name__ == f"{name}_reward"
    with pytest.raises(ConfigError, match="no parameter 'credits'; did you mean 'credit'"):
        get_reward("code", credits="all")
