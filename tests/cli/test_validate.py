"""`trl-grpo-ext validate`: from a file to what the terminal, the exit code and the Parquet file say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trl_grpo_ext import cli
from trl_grpo_ext.cli import validate
from trl_grpo_ext.verify import validation


CASES = Path(__file__).parents[1] / "cases"

BROKEN = [
    {"prompt": "a", "answer": "1"},
    {"prompt": "b", "answer": "\\frac{1}{"},
    {"prompt": "a", "answer": "1"},
    {"prompt": "A ", "answer": "1.0"},
    {"prompt": "a", "answer": "2"},
    {"prompt": "", "answer": "3"},
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def write(tmp_path):
    def write(rows, name="rows.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


def run(capsys, *arguments):
    code = cli.main(["validate", *arguments])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def clean(n):
    return [{"prompt": f"{i}+1", "answer": str(i + 1)} for i in range(n)]


def test_golds_of_gsm8k_are_clean(capsys):
    path = str(CASES / "gsm8k_200.jsonl")
    assert run(capsys, path) == (0, f"{path}: 200 rows, nothing to look at\n")


def test_findings_are_shown_and_counted(write, capsys):
    code, shown = run(capsys, write(BROKEN))
    assert code == 1
    words = " ".join(shown.split())
    for expected in (
        "unreadable: the judge cannot compare anything with the gold (1)",
        "1 \\frac{1}{ the reference",
        "4 2 row 0 says '1'",
        "5 3 the prompt is ''",
        "2 1 the same as row 0",
        "3 1.0 row 0 says '1'",
        "unreadable 1 yes contradiction 1 yes no_prompt 1 yes duplicate_row 1 no duplicate_prompt 1 no",
    ):
        assert expected in words
    assert max(len(line) for line in shown.splitlines() if ": 6 rows" not in line) <= 80


def test_duplicates_alone_waste_no_run(write, capsys):
    code, shown = run(capsys, write([*clean(20), clean(1)[0]]))
    assert code == 0
    assert "duplicate_row" in shown


def test_the_first_of_many_are_shown(write, capsys):
    rows = [{"prompt": str(i), "answer": "" if i < 9 else str(i)} for i in range(20)]
    code, shown = run(capsys, write(rows), "--show", "2")
    assert code == 1
    assert "(9, the first 2)" in shown
    assert shown.count("holds no answer") == 2
    _, shown = run(capsys, write(rows), "--show", "0")
    assert "holds no answer" not in shown
    assert "unreadable" in shown


def test_markup_in_golds_is_text(write, capsys):
    _, shown = run(capsys, write([{"prompt": "a", "answer": "[bold]\\frac{1}{"}]))
    assert "[bold]\\frac{1}{" in shown


def test_the_parquet_has_every_finding(write, tmp_path, capsys):
    from datasets import Dataset

    output = tmp_path / "new" / "findings.parquet"
    code, _ = run(capsys, write(BROKEN), "--output", str(output), "--show", "0")
    assert code == 1
    findings = Dataset.from_parquet(str(output))
    assert findings.column_names == ["row", "kind", "gold", "reason"]
    assert list(zip(findings["row"], findings["kind"], findings["gold"], strict=True)) == [
        (1, "unreadable", "\\frac{1}{"),
        (2, "duplicate_row", "1"),
        (3, "duplicate_prompt", "1.0"),
        (4, "contradiction", "2"),
        (5, "no_prompt", "3"),
    ]
    assert all(findings["reason"])
    assert [path.name for path in output.parent.iterdir()] == ["findings.parquet"]


def test_a_clean_dataset_has_a_parquet_without_rows(write, tmp_path, capsys):
    from pyarrow.parquet import read_table

    output = tmp_path / "findings.parquet"
    assert run(capsys, write(clean(3)), "--output", str(output))[0] == 0
    assert read_table(output).to_pydict() == {"row": [], "kind": [], "gold": [], "reason": []}


def test_a_run_that_fails_leaves_the_old_file(write, tmp_path, monkeypatch):
    output = tmp_path / "findings.parquet"
    output.write_text("old")

    def fail(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(validation.Validator, "check", fail)
    assert cli.main(["validate", write(clean(3)), "--output", str(output)]) == 130
    assert output.read_text() == "old"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet", "folder"])
def test_formats(ending, tmp_path, capsys):
    from datasets import Dataset

    table = Dataset.from_list(BROKEN)
    path = tmp_path / f"rows.{ending}"
    if ending == "folder":
        path.mkdir()
        table.to_parquet(path / "train.parquet")
    elif ending == "json":
        path.write_text(json.dumps(BROKEN))
    else:
        {"jsonl": table.to_json, "csv": table.to_csv, "parquet": table.to_parquet}[ending](path)
    capsys.readouterr()  # progress bars of the writers
    code, shown = run(capsys, str(path))
    assert code == 1
    for kind in ("unreadable", "contradiction", "no_prompt", "duplicate_row"):
        assert kind in shown


def test_batches_make_no_difference(write, tmp_path, capsys, monkeypatch):
    rows = [{"prompt": str(i % 40), "answer": ["1/2", "0.5", "7", ""][i % 4]} for i in range(60)]
    shown = []
    for batch in (7, 500):
        monkeypatch.setattr(validate, "_BATCH", batch)
        shown.append(run(capsys, write(rows), "--show", "100"))
    assert shown[0] == shown[1]
    assert shown[0][0] == 1


def test_limit_and_columns(write, capsys):
    rows = [{"asked": "a", "gold": "1"}, {"asked": "a", "gold": "2"}, {"asked": "b", "gold": ""}]
    path = write(rows)
    code, shown = run(capsys, path, "--column", "gold", "--prompt_column", "asked")
    assert code == 1
    assert "contradiction" in shown
    assert "unreadable" in shown
    code, shown = run(capsys, path, "--column", "gold", "--prompt_column", "asked", "--limit", "1")
    assert (code, shown) == (0, f"{path}: 1 of 3 rows, nothing to look at\n")


def test_a_dataset_without_prompts_says_so(write, capsys):
    code, shown = run(capsys, write([{"answer": "1"}, {"answer": "2"}]))
    assert code == 0
    assert shown.endswith("\nno column `prompt` or `question` or `problem`: duplicates were not looked for\n")


def test_rows_of_other_domains_are_left_out_and_keep_their_numbers(write, capsys):
    rows = [{"domain": "code" if i % 2 else "math", "answer": "" if i in (1, 4) else str(i)} for i in range(8)]
    code, shown = run(capsys, write(rows))
    assert code == 1
    assert "rows.jsonl: 4 of 8 rows\n" in shown
    assert "\n   4  " in shown
    assert "\n   1  " not in shown


def test_a_column_that_happens_to_be_called_domain(write, capsys):
    path = write([row | {"domain": ["Algebra"]} for row in clean(3)])
    assert run(capsys, path) == (0, f"{path}: 3 rows, nothing to look at\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: DATASET; `trl-grpo-ext validate --help`"),
        (["none.jsonl"], "no dataset file 'none.jsonl'; give an existing file, a folder or a Hub id"),
        (["ROWS", "--column", "gold"], "the dataset has no column `gold` (what the math judge compares with)"),
        (["ROWS", "--prompt_column", "asked"], "the dataset has no column `asked` (the prompts); its columns are"),
        (["ROWS", "--split", "test"], "the dataset has no split 'test'; it has 'train'"),
        (["rows.csv", "--split", "test"], "no dataset file 'rows.csv'"),
        (["ROWS", "--dataset_config", "main"], "'"),
        (["ROWS", "--domain", "cooking"], "rows of domain 'cooking' cannot be checked; supported: math, code"),
        (["ROWS", "--limit", "0"], "argument --limit: '0' is no whole number of 1 or more"),
        (["ROWS", "--other_golds", "-1"], "argument --other_golds: '-1' is no whole number of 0 or more"),
        (["ROWS", "--other_golds", "²"], "argument --other_golds: '²' is no whole number of 0 or more"),
        (["ROWS", "--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["ROWS", "--output", "."], "--output '.' is a folder; give the name of a .parquet file"),
        (["ROWS", "--output", "/dev/null/x"], "[Errno 17] File exists: '/dev/null'"),
        (["ROWS", "--colum", "x"], "unrecognized arguments: --colum x"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, write, capsys):
    path = write(clean(3))
    assert cli.main(["validate", *(path if argument == "ROWS" else argument for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", b"", "the dataset 'rows.jsonl' has no rows"),
        ("rows.jsonl", b'{"answer": "1"}\n{"answer"\n', "cannot load the dataset 'rows.jsonl': JSON parse error"),
        ("rows.jsonl", b'{"answer": "\\ud800"}\n', "cannot load the dataset 'rows.jsonl': JSON parse error"),
        ("rows.jsonl", b'{"question": "1"}\n', "the dataset has no column `answer` or `solution` (what the math"),
        ("rows.parquet", b"nonsense", "cannot load the dataset 'rows.parquet': Parquet magic bytes not found"),
        ("rows.csv", b"", "cannot load the dataset 'rows.csv': "),
        ("rows.csv", b"prompt,answer\n", "cannot load the dataset 'rows.csv': "),
        ("rows.txt", b"1\n", "'rows.txt' is no dataset file; expected one of .jsonl, .json, .parquet, .csv"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(name, content, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert cli.main(["validate", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def test_torch_is_not_imported(write, tmp_path):
    """The answer to a broken file should not wait for it."""
    code = (
        "import sys; from trl_grpo_ext.cli import main; code = main(['validate', sys.argv[1]]); "
        "assert not {'torch', 'trl', 'transformers'} & sys.modules.keys(); sys.exit(code)"
    )
    environment = {**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code, write(clean(3))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_explains_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["validate", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for word in ("exit codes:", "  0  ", "  1  ", "  2  ", "--other_golds", "--output"):
        assert word in shown


TRIPLE = {"format": "function_call", "tests": {"fn_name": "f", "inputs": [[2], [3]], "outputs": [6, 9]}}
SILENT = {"format": "stdio", "tests": [{"input": "", "output": ""}]}
PROGRAM = "def f(x):\n    return 3 * x"


@pytest.mark.sandbox
def test_programs(write, tmp_path, capsys):
    from pyarrow.parquet import read_table

    rows = [
        {"prompt": "a", "case": json.dumps(TRIPLE), "answer": PROGRAM},
        {"prompt": "b", "case": json.dumps(TRIPLE), "answer": "def f(x):\n    return x"},
        {"prompt": "c", "case": "{", "answer": PROGRAM},
        {"prompt": "d", "case": json.dumps(SILENT), "answer": PROGRAM},
        {"prompt": "a", "case": json.dumps(TRIPLE), "answer": "f = lambda x: 3 * x"},
    ]
    output = tmp_path / "findings.parquet"
    code, shown = run(capsys, write(rows), "--domain", "code", "--output", str(output))
    assert code == 1
    words = " ".join(shown.split())
    assert "fails_itself: the gold, given as the answer, is not judged right (1)" in words
    assert "wrong: test 1 of 2: f(2): expected 6, got 2" in words
    found = read_table(output).to_pydict()
    assert list(zip(found["row"], found["kind"], strict=True)) == [
        (1, "fails_itself"),
        (2, "unreadable"),
        (3, "empty_is_right"),
        (4, "duplicate_prompt"),
    ]
    assert found["gold"][0] == "def f(x):\n    return x"


@pytest.mark.sandbox
def test_columns_and_conventions_of_programs(write, capsys):
    third = json.dumps({"format": "stdio", "tests": [{"input": "", "output": "0.333"}]})
    path = write([{"asked": "a", "tests": third, "code": "print(1 / 3)"}])
    arguments = [path, "--domain", "code", "--column", "tests", "--solution_column", "code"]
    code, shown = run(capsys, *arguments, "--float_tolerance", "0.01")
    assert code == 0
    assert "duplicates were not looked for" in shown
    assert "golds were" not in shown
    assert run(capsys, *arguments)[0] == 1


@pytest.mark.sandbox
def test_programs_run_where_they_are_told_to(write, capsys):
    path = write([{"case": json.dumps(TRIPLE), "answer": f"import psutil\n{PROGRAM}"}])
    assert run(capsys, path, "--domain", "code")[0] == 1
    assert run(capsys, path, "--domain", "code", "--sandbox", '{"packages": ["psutil"]}')[0] == 0
    assert cli.main(["validate", path, "--domain", "code", "--sandbox", "lokal"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown sandbox 'lokal'")


@pytest.mark.sandbox
def test_programs_without_solutions_say_so(write, capsys):
    path = write([{"prompt": "a", "case": json.dumps(TRIPLE)}])
    code, shown = run(capsys, path, "--domain", "code")
    assert code == 0
    assert "no column `answer` or `solution`: no solutions were judged" in shown


def test_each_domain_has_arguments_of_its_own(write, capsys):
    path = write(clean(3))
    assert cli.main(["validate", path, "--domain", "code", "--percent", "value"]) == 2
    assert "unrecognized arguments: --percent value" in capsys.readouterr().err
    assert cli.main(["validate", path, "--solution_column", "answer"]) == 2
    assert "unrecognized arguments: --solution_column answer" in capsys.readouterr().err
    assert cli.main(["validate", path, "--domain", "code"]) == 2
    assert "the dataset has no column `case` (what the code judge compares with)" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["validate", "--domain", "code", "--help"])
    shown = capsys.readouterr().out
    assert "--solution_column" in shown
    assert "--float_tolerance" in shown
    assert "--sandbox" in shown
    assert "--percent" not in shown
