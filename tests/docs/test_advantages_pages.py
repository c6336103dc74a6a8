"""docs/advantages: pages and figure are those of the entries of today, complete, and their links lead somewhere."""

import inspect
import json
import math
import re

import pytest
import torch
from PIL import Image

from tests.docs.scripts import ROOT, script
from trl_grpo_ext import estimate
from trl_grpo_ext.advantages import ADVANTAGES, FAMILIES, bind_params


FOLDER = ROOT / "docs" / "advantages"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
BUILT_IN = [name for names in FAMILIES.values() for name in names]


@pytest.fixture(scope="module")
def made():
    return script("advantages")


@pytest.fixture(scope="module")
def figure():
    return script("advantage_figure")


@pytest.fixture(scope="module")
def curves(figure):
    return figure.curves()


def test_pages_are_fresh(made):
    assert made.pages() == PAGES, "run: python docs/advantages.py --write"


def test_there_is_a_page_for_each_family_and_a_section_for_each_entry():
    assert PAGES.keys() == {"README.md", "your-own.md", *(f"{family}.md" for family in FAMILIES)}
    for family, names in FAMILIES.items():
        assert re.findall(r"^## `(.+)`$", PAGES[f"{family}.md"], re.MULTILINE) == list(names)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_docstring_says_everything_a_page_shows(name, made):
    estimator = bind_params(name)
    parts = made.take_apart(estimator.function)
    prose = "\n".join(parts.body)
    assert "```" in prose, "no formula"
    for start in ("**Helps when** ", "**Breaks"):
        assert re.search(rf"^{re.escape(start)}", prose, re.MULTILINE), f"no paragraph starts with {start}"
    assert parts.paper or parts.source, "neither paper nor source"
    assert parts.returns
    parameters = inspect.signature(estimator.function).parameters
    assert parts.arguments.keys() == parameters.keys()
    for parameter in parameters.values():
        type_, meaning = parts.arguments[parameter.name]
        assert meaning
        documented = re.search(r"defaults to `(.*)`\Z", type_)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            default = documented[1].replace('"', "'")
            assert default == repr(parameter.default) or float(default) == parameter.default, parameter.name


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, "../../README.md"])
def test_links_lead_somewhere(page):
    text = (FOLDER / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        target = (FOLDER / page).parent / path if path else FOLDER / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


def test_the_index_has_every_entry_once():
    rows = re.findall(
        r"^\| \[`(.+?)`\]\((\w+)\.md#\w+\) \| (?:completion|step|token) \|", PAGES["README.md"], re.MULTILINE
    )
    assert rows == [(name, family) for family, names in FAMILIES.items() for name in names]
    assert f"{len(BUILT_IN)} entries:" in PAGES["README.md"]


def test_the_table_of_other_libraries_names_entries_only(made):
    assert len(made.ELSEWHERE) == 8
    for library, entries in made.ELSEWHERE.items():
        assert entries.keys() <= {*ADVANTAGES.names()}, library
    table = PAGES["README.md"].partition("## Who else has them")[2]
    assert made.COMPARED_ON in table
    # TRL has both ways to scale, RLOO and GDPO, and neither MaxRL nor ReMax.
    rows = {
        match[1]: match[2].split(" | ")
        for match in re.finditer(r"^\| \[`(.+?)`\].*?\) \| (.*) \|$", table, re.MULTILINE)
    }
    trl = {name for name, cells in rows.items() if "✓" in cells[0]}
    assert {"grpo", "dr_grpo", "ppo_lite", "rloo", "gdpo"} <= trl
    assert not {"maxrl", "remax"} & trl
    notes = re.findall(r"^(\d+)\. \S+: (.+)$", table, re.MULTILINE)
    assert [int(number) for number, _ in notes] == list(range(1, len(notes) + 1))
    assert {number for number, _ in notes} == set(re.findall(r"✓ (\d+) \|", table))


def test_the_estimator_that_is_shown_works():
    (code,) = re.findall(r"```python\n(.*?)```", PAGES["your-own.md"], re.DOTALL)
    assert "length_centred" not in ADVANTAGES.names()
    try:
        exec(code, {})
        got = estimate("length_centred", [[1.0, 0.0, None]], extra={"lengths": [[10, 30, 20]]})
    finally:
        ADVANTAGES._objects.pop("length_centred", None)
    assert got == [[pytest.approx(0.6), pytest.approx(-0.6), 0.0]]


def test_the_entry_point_that_is_shown_is_that_of_the_package():
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGES["your-own.md"], re.DOTALL)
    assert shown in (ROOT / "tests" / "thirdparty_package" / "pyproject.toml").read_text(encoding="utf-8")


def test_every_estimator_of_completions_is_drawn(figure, curves):
    records = (ROOT / "tests" / "cases" / "advantages_golden.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = {record["variant"]: record["kind"] for record in map(json.loads, records)}
    assert curves.keys() == {name for name, kind in kinds.items() if kind in ("sequence", "multi")}
    for name, (right, wrong) in curves.items():
        assert len(right) == len(wrong) == figure.GROUP + 1
        assert math.isnan(right[0]), name
        assert math.isnan(wrong[-1]), name
        assert all(map(math.isfinite, (*right[1:], *wrong[:-1]))), name


def test_curves_are_those_of_a_hand_calculation(curves):
    rates = [count / 16 for count in range(17)]
    for name in ("dr_grpo", "opo", "canon"):  # equal lengths, halves at random
        assert curves[name][0][1:] == pytest.approx([1 - rate for rate in rates[1:]])
        assert curves[name][1][:-1] == pytest.approx([-rate for rate in rates[:-1]])
    assert curves["rloo"][0][4] == pytest.approx(12 / 15)
    assert curves["rloo"][1][4] == pytest.approx(-4 / 15)
    for name in ("remax", "pvpo"):
        assert curves[name][0][1:] == [0.5] * 16
        assert curves[name][1][:-1] == [-0.5] * 16
    live = rates[1:-1]
    expected = [(1 - rate) / (math.sqrt(rate * (1 - rate) * 16 / 15) + 1e-4) for rate in live]
    assert curves["grpo"][0][1:-1] == pytest.approx(expected)
    assert curves["grpo"][0][-1] == curves["grpo"][1][0] == 0
    assert curves["maxrl"][0][1:-1] == pytest.approx([(1 - rate) / (rate + 1e-6) for rate in live])


def test_the_figure_is_fresh(figure, curves):
    with Image.open(figure.PICTURE) as picture:
        kept = json.loads(picture.text["Curves"])
    assert list(kept) == list(curves), "run: python docs/advantage_figure.py"
    for name, lines in curves.items():
        for drawn, line in zip(kept[name], lines, strict=True):
            numbers = torch.tensor([math.nan if value is None else value for value in drawn], dtype=torch.float64)
            today = torch.tensor(line, dtype=torch.float64)
            torch.testing.assert_close(numbers, today, rtol=1e-5, atol=1e-9, equal_nan=True, msg=f"{name} has changed")


def test_the_figure_is_small_and_drawn_the_same_each_time(figure, curves, tmp_path):
    assert figure.PICTURE.stat().st_size < 300_000
    few = {name: curves[name] for name in ("grpo", "mc_grpo", "rloo")}
    figure.save(few, tmp_path / "first.png")
    figure.save(few, tmp_path / "second.png")
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()
