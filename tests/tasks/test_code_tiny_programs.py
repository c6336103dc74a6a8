import json
import re

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks import build_task, load_template


FORMULA = re.compile(r"(?:(\d+)x|x([+-]\d+))([+-]\d+)")


def read(row):
    """Slope and offset of the formula in the prompt."""
    slope, second, offset = FORMULA.fullmatch(row["prompt"][0]["content"]).groups()
    return int(slope or 1), int(second or 0) + int(offset)


def functions(split, seed, n, **params):
    return {read(row) for row in build_task("tiny_programs", **params).rows(split, n, seed)}


@pytest.mark.parametrize("split", ["sft", "rl", "eval"])
def test_rows(split):
    task = build_task("tiny_programs")
    rows = task.rows(split, 200, seed=3)
    assert rows == build_task("tiny_programs").rows(split, 200, seed=3)
    assert rows != task.rows(split, 200, seed=4)
    assert len({row["id"] for row in rows}) == 200
    for row in rows:
        slope, offset = read(row)
        assert row["domain"] == "code"
        assert json.loads(row["case"]) == {
            "format": "function_call",
            "tests": {
                "fn_name": "f",
                "inputs": [[0], [1], [2], [-3], [10]],
                "outputs": [offset, slope + offset, 2 * slope + offset, offset - 3 * slope, 10 * slope + offset],
            },
            "entry_point": "f",
            "time_limit": 2.0,
        }
        assert ("completion" in row) == (split == "sft")


def test_the_answers_pass_and_careless_products_do_not():
    for row in build_task("tiny_programs").rows("sft", 300, seed=0):
        case = json.loads(row["case"])
        assert passes(row["answer"], case)
        text = row["completion"][0]["content"]
        assert text.startswith("```py\n")
        assert text.endswith("\n```")
        program = text.removeprefix("```py\n").removesuffix("\n```")
        assert passes(program, case) == (program == row["answer"])


def passes(program, case):
    """Run a program of this very task, which is ours and one line."""
    assert re.fullmatch(r"def f\(x\):\n return [0-9x*+-]+", program)
    scope = {}
    try:
        exec(program, scope)
    except SyntaxError:
        return False
    return [scope["f"](*arguments) for arguments in case["tests"]["inputs"]] == case["tests"]["outputs"]


def test_shares_are_kept():
    rows = build_task("tiny_programs", product=0.6, careful=0.25).rows("sft", 2000, seed=1)
    products = [row for row in rows if read(row)[0] != 1]
    careful = [row for row in products if "*" in row["completion"][0]["content"]]
    assert len(products) == pytest.approx(1200, abs=80)
    assert len(careful) == pytest.approx(300, abs=60)


def test_no_function_is_in_two_splits_of_any_seed():
    evaluated = functions("eval", 0, 300) | functions("eval", 1, 300)
    tuned = functions("sft", 0, 1500) | functions("sft", 2, 1500)
    trained = functions("rl", 0, 1500) | functions("rl", 1, 1500)
    assert not evaluated & tuned
    assert not evaluated & trained
    assert not tuned & trained


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_what_a_tiny_model_has_to_read_and_write(digits):
    for row in build_task("tiny_programs", digits=digits).rows("sft", 50, seed=0):
        assert len(row["prompt"][0]["content"]) <= 12
        text = row["completion"][0]["content"]
        assert len(text) < 50
        assert all(character == "\n" or " " <= character <= "~" for character in text)


def test_the_tiny_tokenizer_reads_and_writes_them():
    from trl_grpo_ext.tasks.tiny_model import build_tokenizer

    tokenizer = build_tokenizer(load_template("arithmetic_think"))
    row = build_task("tiny_programs").rows("sft", 1, seed=0)[0]
    text = row["completion"][0]["content"]
    chat = tokenizer.apply_chat_template(row["prompt"] + row["completion"], tokenize=False)
    prompt = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
    ids, prompt_ids = tokenizer(chat)["input_ids"], tokenizer(prompt)["input_ids"]
    assert tokenizer.decode(ids[len(prompt_ids) :], skip_special_tokens=True) == text
    assert tokenizer.unk_token_id not in ids
    assert len(ids) - len(prompt_ids) == len(text) + 1


@pytest.mark.parametrize("params", [{"digits": 0}, {"digits": 4}, {"product": 1.2}, {"careful": -0.1}])
def test_out_of_range_parameters_are_refused(params):
    with pytest.raises(ConfigError, match="out of range"):
        build_task("tiny_programs", **params)
