"""Rows of each dataset through its adapter. The fixtures say in `source` which rows are published ones."""

import ast
import json
from pathlib import Path

import pytest

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.files import read_jsonl
from trl_grpo_ext.tasks import code
from trl_grpo_ext.tasks.code.apps import apps_solution, taco_solution
from trl_grpo_ext.tasks.code.code_contests import code_contests_solution
from trl_grpo_ext.tasks.code.humaneval import humaneval_solution
from trl_grpo_ext.tasks.code.mbpp import mbpp_solution
from trl_grpo_ext.tasks.code.verifiable import _CHECKER, verifiable_coding_solution
from trl_grpo_ext.verify.code import verify_code
from trl_grpo_ext.verify.code.case import Case


FOLDER = Path(__file__).parents[1] / "cases" / "code_datasets"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
FIXTURES = {name: list(read_jsonl(FOLDER / f"{name}.jsonl")) for name in NAMES}

PROGRAM = (
    "Write a Python program that reads the input from standard input and prints the output. Put the whole program in "
    "one ```python block at the end of the answer."
)


def function(name):
    return f"Write the Python function `{name}`. Put the whole code in one ```python block at the end of the answer."


def adapter(name):
    return getattr(code, f"{name}_case")


def humaneval_prompt(text):
    return (
        "Complete this Python function. Put the whole function, with the imports and helpers it needs, in one "
        f"```python block at the end of the answer.\n\n```python\n{text.strip()}\n```"
    )


def row(name, index, changes):
    return {**FIXTURES[name][index], **changes}


def stdio(tests, seconds, prompt, **more):
    pairs = [{"input": given, "output": wanted} for given, wanted in tests]
    return {
        "format": "stdio",
        "tests": pairs,
        "entry_point": None,
        "time_limit": seconds,
        "prompt": f"{prompt}\n\n{PROGRAM}",
        **more,
    }


def calls(name, inputs, outputs, seconds, prompt):
    return {
        "format": "function_call",
        "tests": {"fn_name": name, "inputs": inputs, "outputs": outputs},
        "entry_point": name,
        "time_limit": seconds,
        "prompt": f"{prompt}\n\n{function(name)}",
    }


def asserts(name, tests, seconds, statement, **more):
    return {
        "format": "asserts",
        "tests": tests,
        "entry_point": name,
        "time_limit": seconds,
        "prompt": f"{statement}\n\n{function(name)}",
        **more,
    }


def check(name, index, entry_point, seconds, **more):
    published = FIXTURES[name][index]
    return {
        "format": "check_function",
        "tests": published["test"],
        "entry_point": entry_point,
        "time_limit": seconds,
        "prompt": humaneval_prompt(published["prompt"]),
        **more,
    }


SUM = (
    "Two integers are given on one line. Print their sum.\n\n-----Input-----\n\nTwo integers.\n\n-----Output-----\n\n"
    "Their sum."
)


def plus(index, name, data, assertion, statement):
    helpers = FIXTURES["mbpp_plus"][index]["test"].split("inputs =")[0]
    loop = f"    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion({assertion})\n"
    return {
        "format": "check_function",
        "tests": f"{helpers}def check(candidate):\n    {name} = candidate\n    {data}\n{loop}",
        "entry_point": name,
        "time_limit": 20.0,
        "prompt": f"{statement}\n\n{function(name)}",
    }


POLY = (
    'import math\n\n\ndef poly(xs: list, x: float):\n    """\n'
    "    Evaluates polynomial with coefficients xs at point x.\n"
    '    return xs[0] + xs[1] * x + xs[1] * x^2 + .... xs[n] * x^n\n    """\n'
    "    return sum([coeff * math.pow(x, i) for i, coeff in enumerate(xs)])"
)
EXPECTED = {
    ("humaneval", 1): check("humaneval", 1, "find_zero", 5.0, preamble=POLY),
    ("humaneval", 4): check("humaneval", 4, "add", 5.0),
    ("humaneval_plus", 0): check("humaneval_plus", 0, "add_one", 20.0),
    ("humaneval_plus", 2): check(
        "humaneval_plus",
        2,
        "unmirror",
        20.0,
        preamble='def mirror(s: str):\n    """Return the text followed by its reverse."""\n    return s + s[::-1]',
    ),
    ("mbpp", 0): asserts(
        "differ_At_One_Bit_Pos",  # the first test's function, not the helper is_Power_Of_Two
        [
            "assert differ_At_One_Bit_Pos(13,9) == True",
            "assert differ_At_One_Bit_Pos(15,8) == False",
            "assert differ_At_One_Bit_Pos(2,4) == False",
        ],
        10.0,
        "Write a python function to check whether the two numbers differ at one bit position only or not.\n\n"
        "It should pass this test:\n\nassert differ_At_One_Bit_Pos(13,9) == True",
    ),
    ("mbpp", 5): asserts(
        "circle_area",
        [
            "assert math.isclose(circle_area(1), math.pi)",
            "assert math.isclose(circle_area(0), 0, abs_tol=1e-9)",
        ],
        10.0,
        "Write a function to return the area of a circle of a given radius.\n\n"
        "It should pass this test:\n\nassert math.isclose(circle_area(1), math.pi)",
        preamble="import math",
    ),
    ("mbpp_plus", 0): plus(
        0,
        "double",
        "inputs = [[2], [0], [-7]]\n    results = [4, 0, -14]",
        "double(*inp), exp, 0",
        "Write a function to double a number.\n\nIt should pass this test:\n\nassert double(2) == 4",
    ),
    ("mbpp_plus", 1): plus(
        1,
        "shared",
        "inputs = [[(1, 2), (2, 3)], [(), ()]]\n    results = [(2,), ()]",
        "set(shared(*inp)), set(exp), 0",
        "Write a function to find the items that two tuples share.\n\n"
        "It should pass this test:\n\nassert set(shared((1, 2), (2, 3))) == {2}",
    ),
    ("apps", 0): stdio([("1 2\n", "3\n"), ("-5 5\n", "0\n")], 8.0, SUM),
    ("apps", 1): stdio(
        [("2\na\nb\n", "b\na\n"), ("1\nz\n", "z\n")],
        8.0,
        "The first line holds n, then n lines with a word each. Print the words in reverse order, one a line.",
    ),
    ("apps", 2): calls(
        "largest",
        [[[1, 9, 3]], [[-4]]],
        [9, -4],
        8.0,
        "Write a function that returns the largest number of a list.\n\nStart from this code:\n\n"
        "```python\ndef largest(nums):\n```",
    ),
    ("apps", 3): calls(
        "atLeast",
        [[[1, 9, 3], 9], [[5], 2]],
        [[9], [5]],  # not unwrapped: the starter code says that a list is returned
        8.0,
        "Return the numbers of nums that are not smaller than k, in their order.\n\nStart from this code:\n\n"
        "```python\nclass Solution:\n    def atLeast(self, nums: List[int], k: int) -> List[int]:\n```",
    ),
    ("taco", 0): stdio(
        [("1 2 4\n", "2\n"), ("3\n", "0\n"), ("0\n", "1\n")],
        6.0,
        "Print the number of even integers on the line.",
        memory_limit_mb=256,
    ),
    ("taco", 1): stdio([("abc\n", "ABC\n")], 1.0, "Print the line in upper case.", memory_limit_mb=256),
    ("taco", 3): stdio(
        [("2\n", "1\n2\n")] * 30, 60.0, "Print n lines, each with the line number.", memory_limit_mb=1024
    ),
    ("taco", 4): stdio(
        [("1\n2\n0\n", "3\n"), ("0\n", "0\n")],
        1.0,
        "Read numbers, one a line until a 0. Print their sum.",
        memory_limit_mb=256,
    ),
    ("code_contests", 0): stdio(
        [("1 2\n", "3\n"), ("5 5\n", "10\n"), ("0 0\n", "0\n")],
        6.0,
        "Print the sum of two integers.",
        memory_limit_mb=256,
    ),
    ("code_contests", 1): stdio([("abc\n", "3\n")], 0.5, "Print the length of the line.", memory_limit_mb=256),
    ("code_contests", 2): stdio([("3 1\n", "1 3\n"), ("2\n", "2\n")], 6.0, "Sort the numbers on the line."),
    ("livecodebench", 0): stdio(
        [("1 2", "3"), ("5 5\n", "10\n"), ("0 0\n", "0\n")], 18.0, "Print the sum of two integers."
    ),
    ("livecodebench", 1): calls(
        "countLarger",
        [[[1, 5, 9], 4], [[], 0]],
        [2, 0],
        12.0,
        "Given nums and k, return how many numbers are larger than k.\n\nStart from this code:\n\n"
        "```python\nclass Solution:\n    def countLarger(self, nums: List[int], k: int) -> int:\n```",
    ),
    ("livecodebench", 4): stdio([("3\n", "1\n")] * 15, 60.0, "Print 1 if the number is odd, else 0."),
    ("verifiable_coding", 0): stdio([("1 2\n", "3\n"), ("4 4\n", "8\n")], 10.0, "Print the sum of two integers."),
    ("verifiable_coding", 1): calls(
        "sort_them", [[[3, 1, 2]], [[]]], [[1, 2, 3], []], 10.0, "Write a function that sorts a list."
    ),
    ("verifiable_coding", 3): calls("add", [[2, 3], [0, 0]], [5, 0], 10.0, "Write a function that adds two numbers."),
    ("verifiable_coding", 4): stdio([("a\n", "A\n")], 5.0, "Print the line in upper case."),
    ("codeforces", 0): stdio(
        [("1 2\n", "3\n"), ("2 2\n", "4\n")],
        4.0,
        "Print the sum of two integers.\n\nInput\n\nNumbers on one line.\n\nOutput\n\nWhat is asked.\n\n"
        "Example input\n\n1 2\n\nExample output\n\n3",
        memory_limit_mb=256,
    ),
    ("codeforces", 1): stdio(
        [("1 1 2\n", "1 2\n")],
        2.0,
        "Print the numbers without repetition, in any order.\n\nInput\n\nNumbers on one line.\n\nOutput\n\n"
        "What is asked.\n\nExample input\n\n1 1 2\n\nExample output\n\n1 2\n\nNote\n\nEvery order is right.",
        memory_limit_mb=256,
        checker=_CHECKER.format(script=FIXTURES["codeforces"][1]["generated_checker"]),
    ),
}


@pytest.mark.parametrize(("name", "index"), EXPECTED, ids=str)
def test_the_whole_case(name, index):
    assert adapter(name)(FIXTURES[name][index]) == EXPECTED[name, index]


def test_every_adapter_has_fixtures_and_two_whole_cases():
    adapters = {name.removesuffix("_case") for name in code.__all__ if name.endswith("_case")}
    assert adapters == set(NAMES)
    for name in NAMES:
        assert len(FIXTURES[name]) >= 5
        assert sum(known == name for known, _ in EXPECTED) >= 2
        assert all(fixture["source"] and fixture["licence"] for fixture in FIXTURES[name])


@pytest.mark.parametrize("name", NAMES)
def test_cases_survive_json_and_the_row_is_left_alone(name):
    for fixture in FIXTURES[name]:
        before = json.dumps(fixture)
        case = adapter(name)(fixture)
        assert json.loads(json.dumps(case)) == case
        assert Case.parse(json.dumps(case)).time_limit == case["time_limit"]
        assert json.dumps(fixture) == before


@pytest.mark.parametrize(
    ("index", "language", "spoken"), [("verifiable_coding", "cpp", "C++"), ("codeforces", "cpp", "C++")]
)
def test_programs_in_another_language_say_so(index, language, spoken):
    cases = [adapter(index)(fixture) for fixture in FIXTURES[index]]
    (other,) = [case for case in cases if "language" in case]
    assert other["language"] == language
    assert f"Write a {spoken} program" in other["prompt"]
    assert f"```{language} block" in other["prompt"]


@pytest.mark.sandbox
def test_a_helper_of_the_prompt_is_the_tests_own():
    program = "def encode_cyclic(s): return s\ndef decode_cyclic(s): return s"  # would pass, were its helper believed
    case = code.humaneval_case(FIXTURES["humaneval"][2])
    verdict = verify_code(f"```python\n{program}\n```", {name: case[name] for name in case if name != "prompt"})
    assert (verdict.value, verdict.kind) == (0.0, "wrong")


@pytest.mark.parametrize(("output", "score"), [("2 1\n", 1.0), ("1 2", 1.0), ("1\n", 0.0), ("", 0.0)])
def test_a_checker_script_becomes_a_function(output, score, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest"])
    case = code.codeforces_case(FIXTURES["codeforces"][1])
    exec(case["checker"], names := {})
    assert names["check"](case["tests"][0]["input"], output, case["tests"][0]["output"]) == score


def test_a_checker_that_quits_or_says_nothing(monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest"])
    exec(_CHECKER.format(script="import sys\nprint(0.5, 'of the points')\nsys.exit(1)"), names := {})
    assert names["check"]("", "", "") == 0.5
    reads = "import sys\nwith open(sys.argv[1], encoding='utf-8') as file:\n    print(int(len(file.readline()) == 2))"
    exec(_CHECKER.format(script=reads), names)
    assert names["check"]("a\r\nb", "", "") == 1.0
    exec(_CHECKER.format(script="'{braces}'"), names)
    with pytest.raises(IndexError):
        names["check"]("", "", "")


def verification(**changes):
    info = {"language": "python", "test_cases": [{"type": "stdin_stdout", "input": "1", "output": "1"}]}
    return {**info, **changes}


def call_test(**changes):
    return {"type": "function_call", "fn_name": "f", "input": [1], "output": 1, **changes}


BAD = [
    ("humaneval", {"entry_point": "missing"}, r"HumanEval row 'HumanEval/0': its prompt does not define 'missing'"),
    ("humaneval", {"entry_point": "__import__('os')"}, "cannot name a function"),
    ("humaneval", {"entry_point": None}, r"no text under 'entry_point' \(entry_point is None\)"),
    ("humaneval", {"test": "assert True"}, "does not define check"),
    ("humaneval", {"test": "  "}, "no text under 'test'"),
    ("mbpp", {"test_list": []}, "MBPP row 6: its 'test_list' is empty, so there are no tests"),
    ("mbpp", {"test_list": "assert f(1)"}, "expected a list of texts"),
    ("mbpp", {"test_list": ["assert f("]}, "its test is no Python"),
    ("mbpp", {"test_list": ["assert f(1)", " "]}, "none of them empty"),
    ("mbpp", {"test_list": ["assert len([]) == 0"]}, "calls no function of its 'code'"),
    ("mbpp", {"code": "def f(:"}, "'code' is no Python"),
    ("mbpp", {"text": None}, "no text under 'text' or 'prompt'"),
    ("mbpp_plus", {"test": ""}, "MBPP\\+ row 991: no text under 'test'"),
    ("mbpp_plus", {"test": "assert double(2) == 4"}, "its 'test' has no line 'inputs = …'"),
    ("apps", {"input_output": ""}, "APPS row 0: it has no tests"),
    ("apps", {"input_output": "{"}, "'?input_output'? is no JSON"),
    ("apps", {"input_output": "[" * 100_000}, "is no JSON"),
    ("apps", {"input_output": json.dumps({"inputs": [], "outputs": []})}, "lists of tests are empty"),
    ("apps", {"input_output": json.dumps({"inputs": ["1"], "outputs": []})}, "expected two lists of one length"),
    (
        "apps",
        {"input_output": json.dumps({"inputs": [{"a": 1}], "outputs": ["1"]})},
        "expected text or a list of lines",
    ),
    ("apps", {"input_output": json.dumps({"fn_name": "f", "inputs": ["1"], "outputs": [1]})}, "list of arguments"),
    ("apps", {"input_output": json.dumps({"fn_name": "f()", "inputs": [[1]], "outputs": [1]})}, "cannot name"),
    (
        "apps",
        {"input_output": json.dumps({"fn_name": "f", "inputs": [[{"1": 2}]], "outputs": [1]})},
        "keys were numbers",
    ),
    (
        "apps",
        {"input_output": json.dumps({"fn_name": "f", "inputs": [[1]], "outputs": [{"1": 2}]})},
        "keys were numbers",
    ),
    ("apps", {"input_output": '{"fn_name": "f", "inputs": [[1]], "outputs": [NaN]}'}, "cannot be written as JSON"),
    ("apps", {"input_output": '{"inputs": ["\\ud800"], "outputs": ["1"]}'}, "cannot be written as JSON"),
    ("taco", {"special_judge": True}, "need a special judge .* TACO has no checker"),
    ("taco", {"time_limit": "soon"}, "'time_limit' is 'soon'; expected a number with its unit"),
    ("taco", {"memory_limit": 256}, "'memory_limit' is 256; expected a number with its unit"),
    ("code_contests", {"input_file": "in.txt"}, "use a file \\('input_file' is 'in.txt'\\)"),
    ("code_contests", dict.fromkeys(("public_tests", "private_tests", "generated_tests")), "has no tests under"),
    ("code_contests", {"public_tests": {"input": ["1"], "output": []}}, "two lists of one length"),
    ("code_contests", {"public_tests": "x"}, "two lists of one length"),
    ("code_contests", {"time_limit": 2}, "expected 'seconds' and 'nanos'"),
    ("code_contests", {"memory_limit_bytes": "much"}, "expected a number"),
    ("livecodebench", {"public_test_cases": "[]", "private_test_cases": ""}, "has no tests under"),
    ("livecodebench", {"public_test_cases": '[{"input": 1}]'}, "expected a list of tests"),
    (
        "livecodebench",
        {"public_test_cases": '[{"input": "1", "output": "1", "testtype": "functional"}]'},
        r"types \['functional', 'stdin'\]; expected all",
    ),
    (
        "livecodebench",
        {
            "public_test_cases": '[{"input": "1", "output": "1", "testtype": "functional"}]',
            "private_test_cases": "[]",
        },
        "'func_name' in its metadata is None",
    ),
    ("verifiable_coding", {"verification_info": None}, "expected 'language' and 'test_cases'"),
    ("verifiable_coding", {"verification_info": "f(1)"}, "neither JSON nor a Python literal"),
    ("verifiable_coding", {"verification_info": verification(test_cases=[])}, "list of tests is empty"),
    (
        "verifiable_coding",
        {"verification_info": verification(test_cases=[{"input": "1"}])},
        "expected 'input' and 'output'",
    ),
    (
        "verifiable_coding",
        {"verification_info": verification(language="brainfuck")},
        "language is 'brainfuck'; known are",
    ),
    (
        "verifiable_coding",
        {"verification_info": verification(test_cases=[{"type": "unit", "input": "1", "output": "1"}])},
        r"types \['unit'\]; expected all",
    ),
    (
        "verifiable_coding",
        {"verification_info": verification(language="cpp", test_cases=[call_test()])},
        r"call a function in C\+\+; only Python functions",
    ),
    (
        "verifiable_coding",
        {"verification_info": verification(test_cases=[call_test(), call_test(fn_name="g")])},
        "several functions",
    ),
    (
        "verifiable_coding",
        {"verification_info": verification(test_cases=[call_test(fn_name=["f"])])},
        "expected a name",
    ),
    ("verifiable_coding", {"verification_info": verification(test_cases=[call_test(fn_name=None)])}, "cannot name"),
    ("codeforces", {"interaction_format": "Ask."}, "codeforces row '0/A': the problem is interactive"),
    ("codeforces", {"input_mode": "file"}, "'input_mode' is 'file'; only 'stdio'"),
    ("codeforces", {"official_tests": None}, "list of tests is empty"),
    ("codeforces", {"executable": False}, "no known solution passes its tests"),
    ("codeforces", {"time_limit": float("inf")}, "expected a number"),
    ("codeforces", {"language": "cobol"}, "language is 'cobol'; known are"),
]


@pytest.mark.parametrize(("name", "changes", "message"), BAD)
def test_unusable_rows_say_what_is_wrong(name, changes, message):
    with pytest.raises(DataError, match=message):
        adapter(name)(row(name, 0, changes))


@pytest.mark.parametrize("name", ["humaneval_plus", "mbpp_plus"])
def test_the_other_form_of_evalplus_is_refused_with_the_right_dataset(name):
    published = {key: value for key, value in FIXTURES[name][0].items() if key != "test"}
    with pytest.raises(DataError, match=r"no expected values; use the rows of evalplus/\w+plus"):
        adapter(name)({**published, "base_input": [[1]], "plus_input": [[2]]})


def test_a_function_called_check_keeps_its_script():
    fixture = row("mbpp_plus", 0, {})
    renamed = {key: json.loads(json.dumps(value).replace("double", "check")) for key, value in fixture.items()}
    case = code.mbpp_plus_case(renamed)
    assert (case["format"], case["entry_point"], case["tests"]) == ("asserts", "check", [renamed["test"]])


def test_tests_that_need_a_class_of_the_program_are_refused():
    changes = {
        "code": "class Pair:\n    pass\ndef chain(p):\n    return 1",
        "test_list": ["assert chain([Pair()]) == 1"],
    }
    with pytest.raises(DataError, match="build objects of 'Pair'"):
        code.mbpp_case(row("mbpp", 0, changes))
    changes = {**changes, "test_setup_code": "p = Pair()", "test_list": ["assert chain(p) == 1"]}
    with pytest.raises(DataError, match="build objects of 'Pair'"):
        code.mbpp_case(row("mbpp", 0, changes))


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_row_is_refused(name):
    with pytest.raises(DataError, match="row"):
        adapter(name)({})


# Every one of these, run or unpickled by mistake, would leave a trace.
def hostile(path):
    text = f"open({str(path)!r}, 'w').close()"
    return [
        text,
        f"__import__('builtins').{text}",
        f"{{'language': {text}, 'test_cases': []}}",
        f"def f(x={text}): pass\n{text}",
        f"assert {text} or True",
        f"class A:\n {text}",
        f"@{text}\ndef g(): pass",
        f'f"{{{text}}}"',
    ]


@pytest.mark.parametrize("name", NAMES)
def test_text_in_a_row_is_never_run(name, tmp_path):
    trace = tmp_path / "ran"
    for column, value in FIXTURES[name][0].items():
        for text in hostile(trace):
            for planted in (text, [text], {"language": text, "test_cases": text, "input": [text], "output": [text]}):
                bad = {**FIXTURES[name][0], column: planted if isinstance(planted, type(value)) else text}
                try:
                    case = adapter(name)(bad)
                except DataError:
                    continue
                assert isinstance(case["prompt"], str)
    assert not trace.exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "planted", [None, "", 0, -1, True, 1e400, [], [None], {}, {"a": None}, [[]], "\ud800", "0" * 50]
)
def test_no_column_brings_an_adapter_down(name, planted):
    for index, fixture in enumerate(FIXTURES[name]):
        for column in fixture:
            problem = None
            try:
                assert adapter(name)(row(name, index, {column: planted}))["tests"]
            except DataError as error:
                problem = str(error)
            assert problem is None or 20 < len(problem) < 600


SOLUTIONS = {
    "apps": apps_solution,
    "taco": taco_solution,
    "code_contests": code_contests_solution,
    "humaneval": humaneval_solution,
    "humaneval_plus": humaneval_solution,
    "mbpp": mbpp_solution,
    "mbpp_plus": mbpp_solution,
    "verifiable_coding": verifiable_coding_solution,
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_reference_solutions_define_what_is_tested(name):
    for fixture in FIXTURES[name]:
        solution = SOLUTIONS[name](fixture)
        entry_point = adapter(name)(fixture)["entry_point"]
        if solution and entry_point:
            tree = ast.parse(solution)
            assert entry_point in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_unreadable_solutions_are_of_the_dataset_they_are_in():
    with pytest.raises(DataError, match="APPS row 7: "):
        apps_solution({"problem_id": 7, "solutions": "["})
    with pytest.raises(DataError, match="TACO row 'sum': "):
        taco_solution({"name": "sum", "solutions": "["})


def test_solutions_in_python_2_are_passed_over():
    assert apps_solution(FIXTURES["apps"][0]) == "print(sum(map(int, input().split())))"
    assert code_contests_solution(FIXTURES["code_contests"][0]) == "print(sum(map(int, input().split())))"
    assert code_contests_solution(FIXTURES["code_contests"][2]) is None
    assert taco_solution(FIXTURES["taco"][4]) is None
    assert verifiable_coding_solution(FIXTURES["verifiable_coding"][0]) == "print(sum(map(int, input().split())))"
    assert verifiable_coding_solution(FIXTURES["verifiable_coding"][2]) is None
