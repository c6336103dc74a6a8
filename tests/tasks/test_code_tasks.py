"""The tasks made of the adapters: rows, splits, files."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import read_jsonl, write_jsonl
from trl_grpo_ext.tasks import build_task, list_tasks
from trl_grpo_ext.tasks.code import CodeTask, humaneval_case
from trl_grpo_ext.tasks.code.row import MAX_SECONDS


FOLDER = Path(__file__).parents[1] / "cases" / "code_datasets"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
WITHOUT_SOLUTIONS = {"codeforces", "livecodebench"}
STATEMENTS = ("question", "description", "question_content", "problem_statement", "problem", "text", "prompt")


def many(name, times=12):
    """The fixtures of a dataset, as many times, each time as problems of their own."""
    rows = []
    for number in range(times):
        for fixture in read_jsonl(FOLDER / f"{name}.jsonl"):
            varied = {key: fixture[key] for key in STATEMENTS if isinstance(fixture.get(key), str)}
            if name.startswith("humaneval"):
                varied = {"prompt": f"# Variant {number}.\n{fixture['prompt']}"}
            else:
                varied = {key: f"{text} (Variant {number}.)" for key, text in varied.items()}
            rows.append({**fixture, **varied})
    return rows


@pytest.fixture
def build(tmp_path):
    def build(name, eval_share=0.2, rows=None):
        path = tmp_path / f"{name}.jsonl"
        write_jsonl(path, many(name) if rows is None else rows)
        return build_task(name, dataset=str(path), eval_share=eval_share)

    return build


def prompts(task, split):
    found, n = set(), 1
    while True:
        try:
            found = {row["prompt"][0]["content"] for row in task.rows(split, n, seed=0)}
        except DataError:
            return found
        n += 1


def test_all_are_registered():
    assert {*NAMES, "tiny_programs"} <= set(list_tasks())


def splits(name):
    return ("rl", "eval") if name in WITHOUT_SOLUTIONS else ("sft", "rl", "eval")


@pytest.mark.parametrize(("name", "split"), [(name, split) for name in NAMES for split in splits(name)])
def test_rows(name, split, build):
    task = build(name)
    rows = task.rows(split, 3, seed=5)
    assert rows == build(name).rows(split, 3, seed=5)
    assert len({tuple(row["id"] for row in task.rows(split, 3, seed)) for seed in range(6)}) > 1
    for row in rows:
        assert set(row) == {"id", "prompt", "domain", "answer", "source", "license", "lang", "case"} | (
            {"completion"} if split == "sft" else set()
        )
        assert row["domain"] == "code"
        assert isinstance(row["answer"], str)
        assert json.loads(json.dumps(row)) == row
        case = json.loads(row["case"])
        assert case["format"] in ("asserts", "check_function", "stdio", "function_call")
        assert case["tests"]
        assert "prompt" not in case
        assert 0 < case["time_limit"] <= MAX_SECONDS


@pytest.mark.parametrize("name", NAMES)
def test_splits_share_no_problem_and_cover_them_all(name, build):
    task = build(name)
    parts = [prompts(task, split) for split in splits(name)]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts))


@pytest.mark.parametrize("name", ["mbpp", "apps"])
def test_a_folder_is_evaluated_on_its_test_part_alone(name, tmp_path):
    rows = many(name)
    write_jsonl(tmp_path / "train.jsonl", rows)
    write_jsonl(tmp_path / "test.jsonl", rows[:4])
    task = build_task(name, dataset=str(tmp_path))
    held_out = prompts(task, "eval")
    assert len(held_out) == 4
    assert not held_out & (prompts(task, "sft") | prompts(task, "rl"))


def test_the_same_problem_in_another_layout_stays_in_its_split(tmp_path):
    rows = many("apps", 3)
    write_jsonl(tmp_path / "test.jsonl", rows[:5])
    spaced = [{**row, "question": f"  {row['question'].replace(' ', '  ')}\n"} for row in rows[:5]]
    write_jsonl(tmp_path / "train.jsonl", [*spaced, *rows[5:]])
    task = build_task("apps", dataset=str(tmp_path))
    trained = {" ".join(text.split()) for text in prompts(task, "sft") | prompts(task, "rl")}
    assert trained
    assert not trained & {" ".join(text.split()) for text in prompts(task, "eval")}


@pytest.mark.parametrize("name", ["humaneval", "humaneval_plus", "mbpp_plus", "livecodebench"])
def test_a_benchmark_is_held_out_as_a_whole(name, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", many(name, 1))
    task = build_task(name, dataset=str(tmp_path / "rows.jsonl"))
    assert len(task.rows("eval", 5, seed=0)) == 5
    with pytest.raises(DataError, match="set eval_share to the share to hold out"):
        task.rows("rl", 1, seed=0)


@pytest.mark.parametrize("name", sorted(WITHOUT_SOLUTIONS))
def test_no_demonstrations_without_solutions(name, build):
    with pytest.raises(DataError, match="has no reference solutions"):
        build(name).rows("sft", 1, seed=0)


def test_a_demonstration_ends_in_the_fenced_solution(build):
    row = build("mbpp").rows("sft", 1, seed=0)[0]
    text = row["completion"][0]["content"]
    assert text.startswith("<think>\n")
    assert text.endswith(f"</think>\n<answer>\n```python\n{row['answer']}\n```\n</answer>")
    assert row["answer"].startswith(("def ", "import "))


def test_rows_without_a_solution_are_left_out_of_the_demonstrations(build, caplog):
    rows = [{**row, "solutions": row["solutions"] if index % 2 else ""} for index, row in enumerate(many("apps"))]
    task = build("apps", rows=rows)
    with caplog.at_level(logging.WARNING):
        found = task.rows("sft", 8, seed=0)
    assert all(row["answer"] for row in found)
    assert "has no reference solution" in caplog.text


def test_unusable_rows_are_left_out_with_a_warning(build, caplog):
    rows = [
        {**row, "input_output": row["input_output"] if index % 3 else ""} for index, row in enumerate(many("apps"))
    ]
    task = build("apps", rows=rows)
    with caplog.at_level(logging.WARNING):
        assert len(prompts(task, "rl")) < len(prompts(build("apps"), "rl"))
    assert "unusable rows of split 'rl'; the first: record" in caplog.text
    assert "it has no tests" in caplog.text


def test_when_no_row_is_usable_the_first_reason_is_the_error(build):
    task = build("apps", rows=[{**row, "input_output": ""} for row in many("apps")])
    with pytest.raises(
        DataError, match=r"none of the \d+ problems in split 'rl' is usable; .*record \d+ of .*no tests"
    ):
        task.rows("rl", 1, seed=0)


def test_asking_for_too_many_says_how_many_there_are(build):
    with pytest.raises(DataError, match=r"holds \d+ usable problems, 9000 were asked for"):
        build("taco").rows("rl", 9000, seed=0)


def test_rows_of_another_dataset_are_named(build):
    with pytest.raises(DataError, match=r"record 1 of .*mbpp.jsonl has no text under 'text' or 'prompt'"):
        build("mbpp", rows=[{"question": "?"}]).rows("rl", 1, seed=0)


@pytest.mark.parametrize("name", ["mbpp", "code_contests", "livecodebench", "apps"])
def test_parquet_gives_the_rows_of_json_lines(name, build, tmp_path):
    from datasets import Dataset

    columns = set(many(name, 1)[0])
    rows = [row for row in many(name) if set(row) == columns]  # MBPP's two sets differ in their columns
    Dataset.from_list(rows).to_parquet(tmp_path / "rows.parquet")
    task = build_task(name, dataset=str(tmp_path / "rows.parquet"), eval_share=0.2)
    for split in ("rl", "eval"):
        assert task.rows(split, 3, seed=1) == build(name, rows=rows).rows(split, 3, seed=1)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("missing.jsonl", "is no .jsonl or .parquet file that exists"),
        ("rows.csv", "is no .jsonl or .parquet file that exists"),
        ("empty.jsonl", "has no rows"),
        ("bad.parquet", "cannot be read as Parquet"),
        ("folder", "has no train.jsonl or train.parquet"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, dataset, message):
    (tmp_path / "rows.csv").write_text("question\n")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "bad.parquet").write_text("no parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=message):
        build_task("apps", dataset=str(tmp_path / dataset)).rows("rl", 1, seed=0)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("apps", {"eval_share": 1.5}, "eval_share=1.5 is out of range"),
        ("mbpp", {"variant": "small"}, "variant='small' is unknown"),
        ("livecodebench", {"release": 9}, "release=9 is unknown; use 1 to 6"),
        ("taco", {"eval_shares": 0.5}, "did you mean 'eval_share'"),
    ],
)
def test_wrong_parameters_are_refused(name, params, message):
    with pytest.raises(ConfigError, match=message):
        build_task(name, **params)


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("mbpp", {"variant": "sanitized"}, ("google-research-datasets/mbpp", "sanitized", {"split": "train"})),
        ("apps", {}, ("codeparrot/apps", None, {"split": "train", "revision": "refs/convert/parquet"})),
        ("apps", {"revision": "abc"}, ("codeparrot/apps", None, {"split": "train", "revision": "abc"})),
        ("codeforces", {"dataset": "me/mine"}, ("me/mine", "verifiable", {"split": "train"})),
        (
            "livecodebench",
            {"release": 2, "eval_share": 0.1},
            (
                "json",
                None,
                {
                    "data_files": [
                        "hf://datasets/livecodebench/code_generation_lite/test.jsonl",
                        "hf://datasets/livecodebench/code_generation_lite/test2.jsonl",
                    ]
                },
            ),
        ),
    ],
)
def test_what_is_asked_of_the_hub(monkeypatch, name, params, expected):
    asked = []

    def load_dataset(dataset, config=None, **keywords):
        asked.append((dataset, config, keywords))
        raise FileNotFoundError("no connection")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    task = build_task(name, **params)
    with pytest.raises(DataError, match=r"cannot load .* from the Hub"):
        task._read("train")
    dataset, config, keywords = expected
    assert asked[0][:2] == (dataset, config)
    assert keywords.items() <= asked[0][2].items()


def test_a_task_of_ones_own_needs_only_an_adapter(tmp_path):
    class Mine(CodeTask):
        source, license = "mine", "CC0-1.0"
        hub_parts = ("train",)
        statement_columns = ("prompt",)
        has_solutions = False
        case = staticmethod(humaneval_case)

    write_jsonl(tmp_path / "rows.jsonl", many("humaneval"))
    rows = Mine(str(tmp_path / "rows.jsonl")).rows("rl", 4, seed=0)
    assert [row["answer"] for row in rows] == [""] * 4


def test_building_and_listing_imports_neither_torch_nor_datasets():
    code = (
        "import sys; from trl_grpo_ext.tasks import build_task; import trl_grpo_ext.tasks.code;"
        "[build_task(name) for name in ('apps', 'humaneval', 'livecodebench', 'mbpp', 'taco', 'verifiable_coding')];"
        "build_task('tiny_programs').rows('rl', 2, 0);"
        "print([name for name in ('torch', 'transformers', 'datasets', 'trl', 'pyarrow') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
