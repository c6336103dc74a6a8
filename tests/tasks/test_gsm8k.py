import pytest

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.files import read_jsonl, write_jsonl
from trl_grpo_ext.tasks import build_task


QUESTION = "Natalia sold clips to 48 of her friends in April, and then half as many in May. How many altogether?"
SOLUTION = "In May she sold 48/2 = <<48/2=24>>24.\nTogether 48+24 = <<48+24=72>>72.\n#### 1,072"


def questions(task, split):
    n = 1
    found = []
    while True:
        try:
            found = task.rows(split, n, seed=0)
        except DataError:
            return {row["prompt"][0]["content"] for row in found}
        n += 1


def test_solution_becomes_thought_and_answer(tmp_path):
    records = [{"question": f"{QUESTION} ({i})", "answer": SOLUTION} for i in range(40)]
    write_jsonl(tmp_path / "mine.jsonl", records)
    row = build_task("gsm8k", dataset=str(tmp_path / "mine.jsonl")).rows("sft", 1, seed=0)[0]
    assert row["answer"] == "1072"
    assert row["completion"] == [
        {
            "role": "assistant",
            "content": "<think>In May she sold 48/2 = 24.\nTogether 48+24 = 72.</think>\n<answer>1072</answer>",
        }
    ]


def test_splits_of_a_folder(gsm8k_folder):
    task = build_task("gsm8k", dataset=str(gsm8k_folder))
    train = {row["question"].strip() for row in read_jsonl(gsm8k_folder / "train.jsonl")}
    test = {row["question"].strip() for row in read_jsonl(gsm8k_folder / "test.jsonl")}
    sft, rl = questions(task, "sft"), questions(task, "rl")
    assert sft | rl == train
    assert not sft & rl
    assert questions(task, "eval") == test


def test_splits_of_one_file(tmp_path):
    path = tmp_path / "all.jsonl"
    write_jsonl(path, [{"question": f"{QUESTION} ({i})", "answer": SOLUTION} for i in range(60)])
    task = build_task("gsm8k", dataset=str(path))
    parts = [questions(task, split) for split in ("sft", "rl", "eval")]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts)) == 60


def test_a_test_question_in_the_train_part_is_left_out(gsm8k_folder):
    train, test = gsm8k_folder / "train.jsonl", list(read_jsonl(gsm8k_folder / "test.jsonl"))
    write_jsonl(train, [*read_jsonl(train), test[0]])
    task = build_task("gsm8k", dataset=str(gsm8k_folder))
    assert test[0]["question"] not in questions(task, "sft") | questions(task, "rl")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"problem": "1+1?", "answer": "#### 2"}, r"record 1 of .*one.jsonl has no text under 'question'"),
        ({"question": "1+1?", "solution": "2"}, r"no text under 'answer', only \['question', 'solution'\]"),
        ({"question": "1+1?", "answer": "It is 2."}, "no final answer: 'It is 2.' does not end in a line"),
        ({"question": "1+1?", "answer": "It is 2.\n#### "}, "no final answer"),
    ],
)
def test_unusable_records_are_named(tmp_path, record, message):
    write_jsonl(tmp_path / "one.jsonl", [record])
    with pytest.raises(DataError, match=message):
        build_task("gsm8k", dataset=str(tmp_path / "one.jsonl")).rows("rl", 1, seed=0)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"test.jsonl does not exist; point `dataset`"):
        build_task("gsm8k", dataset=str(tmp_path)).rows("eval", 1, seed=0)


def test_a_file_that_is_not_json_lines_is_named(tmp_path):
    (tmp_path / "bad.jsonl").write_text("question,answer\n")
    with pytest.raises(DataError, match=r"bad\.jsonl, line 1 is not JSON in UTF-8"):
        build_task("gsm8k", dataset=str(tmp_path / "bad.jsonl")).rows("rl", 1, seed=0)


def test_nothing_is_read_before_rows_are_drawn():
    build_task("gsm8k", dataset="nobody/no-such-data-set")
