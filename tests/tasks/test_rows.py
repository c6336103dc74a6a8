import json

import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.tasks import SPLITS, Task, build_task, list_tasks
from trl_grpo_ext.verify import verify_math_batch


def build(name, gsm8k_folder):
    return build_task(name, **({"dataset": str(gsm8k_folder)} if name == "gsm8k" else {}))


@pytest.mark.parametrize("name", ["arithmetic", "gsm8k"])
@pytest.mark.parametrize("split", SPLITS)
class TestEveryTask:
    def test_same_seed_same_rows(self, name, split, gsm8k_folder):
        first = build(name, gsm8k_folder).rows(split, 3, seed=7)
        assert first == build(name, gsm8k_folder).rows(split, 3, seed=7)

    def test_another_seed_another_order(self, name, split, gsm8k_folder):
        task = build(name, gsm8k_folder)
        assert len({tuple(row["id"] for row in task.rows(split, 3, seed)) for seed in range(5)}) > 1

    def test_schema(self, name, split, gsm8k_folder):
        for row in build(name, gsm8k_folder).rows(split, 3, seed=0):
            assert set(row) == {"id", "prompt", "domain", "answer", "source", "license", "lang"} | (
                {"completion"} if split == "sft" else set()
            )
            assert [message["role"] for message in row["prompt"]] == ["user"]
            assert isinstance(row["answer"], str)
            assert json.loads(json.dumps(row)) == row

    def test_golds_verify(self, name, split, gsm8k_folder):
        rows = build(name, gsm8k_folder).rows(split, 3, seed=0)
        answers = [row["answer"] for row in rows]
        verdicts = verify_math_batch(answers, [f"<think>so</think><answer>{answer}</answer>" for answer in answers])
        assert [verdict.value for verdict in verdicts] == [1.0] * len(rows)

    def test_asking_for_too_many_says_how_many_there_are(self, name, split, gsm8k_folder):
        with pytest.raises(DataError, match=r"holds \d+ usable problems, 9000 were asked for"):
            build(name, gsm8k_folder).rows(split, 9000, seed=0)

    def test_asking_for_none_is_refused(self, name, split, gsm8k_folder):
        with pytest.raises(ConfigError, match="at least 1"):
            build(name, gsm8k_folder).rows(split, 0, seed=0)


@pytest.mark.parametrize("name", ["arithmetic", "gsm8k"])
def test_unknown_split_is_refused(name, gsm8k_folder):
    with pytest.raises(ConfigError, match="unknown split 'test'"):
        build(name, gsm8k_folder).rows("test", 1, seed=0)


def test_names_are_listed():
    assert {"arithmetic", "gsm8k"} <= set(list_tasks())


def test_unknown_task_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'arithmetic'"):
        build_task("arithmetics")


def test_unknown_parameter_names_the_nearest():
    with pytest.raises(ConfigError, match="no parameter 'digit'; did you mean 'digits'"):
        build_task("arithmetic", digit=3)


def test_a_task_of_ones_own_by_path():
    assert isinstance(build_task("trl_grpo_ext.tasks.arithmetic:Arithmetic", digits=3), Task)
