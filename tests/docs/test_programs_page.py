"""docs/programs.md is that of the judge and the sandbox of today."""

import inspect
import re
from dataclasses import fields

import pytest

from tests.docs.scripts import ROOT, script
from trl_grpo_ext.sandbox import LEVELS, SANDBOXES, SandboxOptions
from trl_grpo_ext.sandbox.languages import LANGUAGES
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.code import Case, CodeOptions
from trl_grpo_ext.verify.code.case import FORMATS


README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def programs():
    return script("programs")


@pytest.fixture(scope="module")
def text(programs):
    return programs.PAGE.read_text(encoding="utf-8")


@pytest.mark.sandbox
def test_the_page_is_fresh(programs, text):
    assert programs.page() == text, "run: python docs/programs.py --write"


def test_nothing_is_left_out(programs, text):
    assert {*programs.FORMATS} == {*FORMATS}
    assert {*programs.VERDICTS} <= {*Verdict.__dataclass_fields__["kind"].type.__args__}
    for name in (*(item.name for kind in (Case, CodeOptions, SandboxOptions) for item in fields(kind)), *LEVELS):
        assert re.search(rf"^\| `{name}` \|", text, re.MULTILINE), name
    for name in SANDBOXES.names():
        assert f"| `{name}` | " in text
    for name, language in LANGUAGES.items():
        assert f"| `{name}` | `{language.tool}` |" in text
    assert "[`" not in text


def test_the_options_of_every_sandbox_are_there(text):
    section = text.partition("## Where programs run")[2].partition("\n## ")[0]
    for names, table in re.findall(
        r"^Options of ([^\n]*):\n\n(.*?)\n\nFurther options: ", section, re.MULTILINE | re.DOTALL
    ):
        documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names):
            parameters = inspect.signature(SANDBOXES.get(name)).parameters.values()
            assert documented == [one.name for one in parameters if one.kind is not one.VAR_KEYWORD], name
    assert {*re.findall(r"`(\w+)`", " ".join(re.findall(r"^Options of (.*):", section, re.MULTILINE)))} == {
        name for name in SANDBOXES.names() if name != "local"
    }


def test_what_was_not_tested_says_so(text):
    assert "tested against stand-ins only" in text
    assert "`ray` was tested on one node" in text


@pytest.mark.sandbox
def test_a_judge_that_breaks_a_convention_makes_no_page(programs, monkeypatch):
    monkeypatch.setattr(programs, "verify_code", lambda *arguments, **options: Verdict(0.0, "wrong", reason="no"))
    with pytest.raises(SystemExit, match="its program is judged wrong"):
        programs.page()
    monkeypatch.setattr(programs, "FORMATS", {})
    with pytest.raises(SystemExit, match="the convention says correct, the judge wrong"):
        programs.page()


def test_what_it_shows_is_understood(text):
    import yaml

    from trl_grpo_ext.rewards import RewardSpec, get_reward

    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (reward,) = yaml.safe_load(block)["rewards"]
    spec = RewardSpec.parse(reward)
    assert get_reward(spec.name, **spec.params).sandbox == {"name": "local", "packages": ["numpy"]}
    for block in re.findall(r"```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        compile(block, "programs.md", "exec")


@pytest.mark.sandbox
def test_the_readme_prints_what_it_says(capsys):
    blocks = re.findall(r"```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "verify_code(" in block]
    exec(block, {})
    assert capsys.readouterr().out.strip() == block.partition("#")[2].strip()


def test_it_is_linked_and_its_links_lead_somewhere(text):
    assert "docs/programs.md" in README
    assert "docs/code_hacks.md" in README
    assert "](code_hacks.md)" in text
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        page = (ROOT / "docs" / path).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_a_table_cell_holds_any_text(programs):
    assert programs._code("a|b\nc") == "`a\\|b⏎c`"
    assert programs._code("```x```") == "```` ```x``` ````"
    assert programs._cell("as [`~a.b.Case`] and [`Case`]") == "as `Case` and `Case`"
