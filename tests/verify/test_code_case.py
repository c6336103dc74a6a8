"""Cases as datasets hold them, and options."""

import json

import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.sandbox import Limits
from trl_grpo_ext.sandbox import languages as sandbox_languages
from trl_grpo_ext.verify.code import Case, CodeOptions, extract
from trl_grpo_ext.verify.code.case import LANGUAGES, MAX_TESTS, Example


STDIO = {"format": "stdio", "tests": [{"input": "1\n", "output": "2\n"}]}
CALL = {"format": "function_call", "tests": {"fn_name": "f", "inputs": [[1, [2]], []], "outputs": [3, None]}}
CHECK = {"format": "check_function", "entry_point": "f", "tests": "def check(candidate):\n    assert candidate(1)\n"}
ASSERTS = {"format": "asserts", "tests": ["assert f(1)", "x = 1\nassert f(x)"]}


def test_stdio():
    assert Case.parse(STDIO) == Case("stdio", (Example("1\n", "2\n"),))


def test_function_call():
    case = Case.parse(CALL)
    assert case.tests == (Example((1, [2]), 3), Example((), None))
    assert case.entry_point == "f"
    assert Case.parse({**CALL, "entry_point": "g"}).entry_point == "g"


def test_check_function():
    assert Case.parse(CHECK).tests == (CHECK["tests"],)


def test_asserts_are_a_list_or_one_text():
    assert Case.parse(ASSERTS).tests == ("assert f(1)", "x = 1\nassert f(x)")
    assert Case.parse({"format": "asserts", "tests": "assert f(1)\nassert f(2)"}).tests == (
        "assert f(1)\nassert f(2)",
    )


@pytest.mark.parametrize("fields", [STDIO, CALL, ASSERTS])
def test_tests_and_cases_may_be_json(fields):
    expected = Case.parse(fields)
    assert Case.parse({**fields, "tests": json.dumps(fields["tests"])}) == expected
    assert Case.parse(json.dumps(fields)) == expected
    assert Case.parse(json.dumps({**fields, "tests": json.dumps(fields["tests"])})) == expected


def test_a_case_is_a_case():
    case = Case.parse(STDIO)
    assert Case.parse(case) is case


def test_what_is_none_counts_as_absent_and_other_columns_are_not_looked_at():
    row = {**STDIO, "id": 3, "prompt": "…", "time_limit": None, "checker": None, "weights": None, "entry_point": None}
    assert Case.parse(row) == Case.parse(STDIO)
    assert Case.parse(row).time_limit == 5.0


def test_optional_fields():
    case = Case.parse(
        {
            **STDIO,
            "time_limit": 2,
            "memory_limit_mb": 512,
            "float_tolerance": 1e-6,
            "checker": "def check(i, o): return True",
            "language": "cpp",
            "preamble": "#include <cstdio>",
            "weights": [3],
        }
    )
    assert (case.time_limit, case.memory_limit_mb, case.float_tolerance) == (2, 512, 1e-6)
    assert (case.language, case.preamble, case.weights) == ("cpp", "#include <cstdio>", (3.0,))


def test_with_a_checker_the_output_may_be_unknown():
    fields = {"format": "stdio", "tests": [{"input": "1"}], "checker": "def check(i, o): return True"}
    assert Case.parse(fields).tests == (Example("1", None),)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (None, "the case is None"),
        ([STDIO], "expected a mapping"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("9" * 5000, "the case is|no JSON"),
        ({}, "format is None"),
        ({**STDIO, "format": "unit"}, "format is 'unit'; expected one of 'asserts', 'check_function'"),
        ({**STDIO, "format": ["stdio"]}, "format is"),
        ({**STDIO, "tests": []}, "0 tests"),
        ({**STDIO, "tests": STDIO["tests"] * (MAX_TESTS + 1)}, f"{MAX_TESTS + 1} tests"),
        ({**STDIO, "tests": None}, "tests is None"),
        ({**STDIO, "tests": "[{"}, "tests is no JSON"),
        ({**STDIO, "tests": '[{"input": "\\ud800", "output": ""}]'}, "the input of a test is"),
        ({**STDIO, "tests": {"input": "", "output": ""}}, "expected a list"),
        ({**STDIO, "tests": ["1"]}, "a test is '1'"),
        ({**STDIO, "tests": [{"input": "1"}]}, "the output of a test is None"),
        ({**STDIO, "tests": [{"input": 1, "output": "1"}]}, "the input of a test is 1"),
        ({**CALL, "tests": []}, "expected {"),
        ({**CALL, "tests": {"fn_name": "f", "inputs": [1], "outputs": [1]}}, "lists of arguments"),
        ({**CALL, "tests": {"fn_name": "f", "inputs": [[1]], "outputs": []}}, "a list of 1"),
        ({**CALL, "tests": {"fn_name": "f", "inputs": [], "outputs": []}}, "0 tests"),
        ({**CALL, "tests": {"inputs": [[1]], "outputs": [1]}}, "give `entry_point`"),
        ({**CALL, "tests": {"fn_name": "f)", "inputs": [[1]], "outputs": [1]}}, "entry_point is 'f\\)'"),
        ({**CHECK, "tests": "assert f(1)"}, "defines check"),
        ({**CHECK, "tests": ["def check(f): pass"]}, "defines check"),
        ({**CHECK, "entry_point": None}, "give `entry_point`"),
        ({**CHECK, "entry_point": "f or print"}, "name of a function"),
        ({**ASSERTS, "tests": ["assert f(1)", 2]}, "Python statements"),
        ({**ASSERTS, "tests": ["assert f(1)", " "]}, "Python statements"),
        ({**ASSERTS, "tests": ""}, "Python statements"),
        ({**ASSERTS, "tests": []}, "0 tests"),
        ({**ASSERTS, "language": "rust"}, "is for Python, not for rust"),
        ({**ASSERTS, "checker": "def check(i, o): pass"}, "leave `checker` out"),
        ({**STDIO, "language": "cobol"}, "language is 'cobol'"),
        ({**STDIO, "time_limit": 0}, "time_limit is 0"),
        ({**STDIO, "time_limit": True}, "time_limit is True"),
        ({**STDIO, "time_limit": "5"}, "time_limit is '5'"),
        ({**STDIO, "time_limit": float("nan")}, "time_limit is nan"),
        ({**STDIO, "time_limit": 10**400}, "time_limit is an integer of"),
        ({**STDIO, "memory_limit_mb": -1}, "memory_limit_mb is -1"),
        ({**STDIO, "float_tolerance": 1}, "float_tolerance is 1"),
        ({**STDIO, "float_tolerance": "1e-6"}, "float_tolerance is '1e-6'"),
        ({**STDIO, "weights": [1, 2]}, "each of the 1 tests"),
        ({**STDIO, "weights": [0]}, "positive number"),
        ({**STDIO, "weights": "1"}, "positive number"),
        ({**STDIO, "preamble": 3}, "preamble is 3"),
        ({**STDIO, "checker": 3}, "checker is 3"),
    ],
)
def test_a_case_that_cannot_be_used_is_refused(fields, message):
    with pytest.raises(DataError, match=message) as raised:
        Case.parse(fields)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (lambda: Case("unit", ("assert f(1)",)), "format is 'unit'"),
        (lambda: Case("stdio", [Example("1", "2")]), "expected a tuple"),
        (lambda: Case("stdio", ()), "0 tests"),
        (lambda: Case("stdio", ({"input": "1", "output": "2"},)), "expected an `Example`"),
        (lambda: Case("stdio", (Example("1", None),)), "the output of a test is None"),
        (lambda: Case("function_call", (Example([1], 2),), "f"), "an `Example` of arguments"),
        (lambda: Case("function_call", (Example((1,), 2),)), "give `entry_point`"),
        (lambda: Case("check_function", ("def check(f): pass",) * 2, "f"), "format 'check_function' has one"),
        (lambda: Case("asserts", ("assert f(1)",), language="cpp"), "is for Python"),
        (lambda: Case("asserts", ("assert f(1)",), time_limit=0), "time_limit is 0"),
        (lambda: Case("asserts", ("assert f(1)",), weights=(1.0, 2.0)), "each of the 1 tests"),
    ],
)
def test_a_case_that_was_not_parsed_is_held_to_the_same(case, message):
    with pytest.raises(DataError, match=message):
        case()


def test_a_case_that_was_not_parsed_is_the_same():
    assert Case("asserts", tuple(ASSERTS["tests"]), weights=[1, 2]) == Case.parse({**ASSERTS, "weights": [1, 2]})
    assert Case("function_call", Case.parse(CALL).tests, "f") == Case.parse(CALL)
    assert Case("check_function", (CHECK["tests"],), "f") == Case.parse(CHECK)


def test_limits_are_those_of_a_job():
    assert Case.parse(STDIO).limits == Limits()
    assert Case.parse({**STDIO, "time_limit": 2, "memory_limit_mb": 512.5}).limits == Limits(2, 513)
    with pytest.raises(DataError, match=r"no sandbox keeps the limits of the case: .*memory_mb is 1;"):
        Case.parse({**STDIO, "memory_limit_mb": 0.5})


def test_languages_are_those_of_the_sandbox():
    from trl_grpo_ext.tasks.code import verifiable

    assert ("python", *sandbox_languages.LANGUAGES) == LANGUAGES
    assert extract.TAGS.keys() == {*LANGUAGES}
    for name, _, fence in verifiable.LANGUAGES.values():
        assert fence in extract.TAGS[name]
    assert {name for name, _, _ in verifiable.LANGUAGES.values()} == {*LANGUAGES}


def test_options():
    options = CodeOptions(credit="fraction")
    assert CodeOptions.parse(None) == CodeOptions()
    assert CodeOptions.parse(options) is options
    assert CodeOptions.parse({"credit": "fraction"}) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"credits": "all"}, "did you mean 'credit'"),
        ({"credit": "some"}, "credit is 'some'; expected one of 'all', 'fraction', 'weighted'"),
        ({"fence": True}, "fence is True"),
        ({"float_tolerance": -1}, "float_tolerance is -1"),
        ({"float_tolerance": float("nan")}, "float_tolerance is nan"),
        ({"thinking_end": " "}, "thinking_end"),
        ("all", "expected CodeOptions"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        CodeOptions.parse(options)
