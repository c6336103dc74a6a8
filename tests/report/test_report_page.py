import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from trl_grpo_ext.report import build_report


VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that do not match."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)


@pytest.fixture(scope="module")
def parsed(page):
    return Page(page)


@pytest.fixture
def small_run(make_run):
    """A run that is quick to draw: two logged metrics."""
    run = make_run()
    for stage in ("02-cold_sft", "04-reason_rl"):
        (run / stage / "logs" / "metrics.jsonl").write_text('{"step": 1, "loss": 1.5}\n')
    return run


def test_the_page_and_its_figures_lie_in_the_report_stage(page):
    assert page.parts[-4:] == ("quickstart", "06-report", "out", "report.html")
    figures = sorted((page.parent / "figures").glob("*.png"))
    assert len(figures) == 13
    assert all(figure.read_bytes().startswith(b"\x89PNG") and figure.stat().st_size > 5_000 for figure in figures)


def test_without_a_started_report_stage_it_lies_in_report(small_run, tmp_path):
    shutil.rmtree(small_run / "06-report")
    assert build_report(small_run) == small_run / "report" / "report.html"
    assert build_report(small_run, out_dir=tmp_path / "there") == tmp_path / "there" / "report.html"


def test_the_numbers_are_on_the_page(parsed):
    for words in (
        "✓ finished",
        "Accuracy, greedy decoding, 200 held-out problems",
        "+78.0 percentage points; the intervals do not overlap.",
        "72.8 to 84.2 %",
        "pass@4",
        "94.2 %",
        "3 min 5 s",
        "160 of 160",
        "num_generations: 8",
        "packages.transformers",
        "5.24.0",
        "<answer>126</answer>",
    ):
        assert words in parsed.text
    assert "not finished" not in parsed.text


def test_the_control_is_on_the_page(parsed):
    assert "The same for the control run (shuffled-rewards)" in parsed.text
    assert "Since cold_sft (31.0 %): −1.5 percentage points; the intervals overlap" in parsed.text
    assert parsed.text.count("eval_rl (control)") == 2, "in the table and in the figure"
    labels = [attributes.get("aria-label", "") for tag, attributes in parsed.tags if tag == "svg"]
    assert sum("control run" in label for label in labels) == 9


def test_alerts_stand_above_the_headline(small_run):
    (small_run / "environment.json").unlink()
    text = Page(build_report(small_run)).text
    assert text.index("environment.json is missing.") < text.index("held-out problems")


def test_a_run_that_has_only_begun(make_run):
    run = make_run()
    for folder in run.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    text = Page(build_report(run)).text
    for words in ("not finished", "No evaluation has finished yet.", "No step has been logged yet."):
        assert words in text


@pytest.mark.parametrize(
    "names",
    [
        ["pipeline.resolved.yaml", "pipeline.yaml", "00-data/out/report.json", "01-eval_base/out/scores.json"],
        ["00-data/stage.json", "04-reason_rl/stage.json", "04-reason_rl/DONE", "04-reason_rl/progress.json"],
        ["02-cold_sft/logs/metrics.jsonl", "04-reason_rl/logs/completions.jsonl", "05-eval_rl/stage.json"],
    ],
)
def test_any_part_may_be_missing(small_run, names):
    for name in names:
        (small_run / name).unlink()
    assert "quickstart" in Page(build_report(small_run)).text


def test_hostile_text_stays_text(hostile_page):
    shown = Page(hostile_page)
    names = {tag for tag, _ in shown.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    assert not any(name.startswith("on") for _, attributes in shown.tags for name in attributes)
    raw = hostile_page.read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", raw)
    assert len(raw) < 1_000_000
    for words in (
        "<script>document.title = 'owned'",
        "␛[31mred",
        "[U+202E]gnp.exe",
        "[U+D83D]",
        "{{ 7 * 7 }}",
        "&amp; שלום",
        "Shortened: ",
    ):
        assert words in shown.text


@pytest.mark.parametrize("which", ["page", "hostile_page"])
def test_the_page_loads_nothing(request, which):
    shown = Page(request.getfixturevalue(which))
    for tag, attributes in shown.tags:
        for name in ("src", "href", "xlink:href", "srcset", "data", "action", "style", "clip-path"):
            assert not re.search(r"https?:|//|url\((?!#)", attributes.get(name) or ""), (tag, attributes)
    policy = next(a["content"] for tag, a in shown.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_page_is_accessible(parsed):
    assert all(attributes["aria-label"] for tag, attributes in parsed.tags if tag == "svg")
    assert all("scope" in attributes for tag, attributes in parsed.tags if tag == "th")
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for tag, attributes in parsed.tags if tag == "a"}
    assert targets
    assert targets <= set(ids)
    assert [tag for tag, _ in parsed.tags if re.fullmatch(r"h\d", tag)] == ["h1"] + ["h2"] * 7


def test_colours_have_contrast_in_both_schemes(page):
    css = page.read_text(encoding="utf-8")
    roots = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    pairs = [(ink, ground) for ink in ("ink", "muted") for ground in ("page", "card", "code")]
    pairs += [("fig-ink", "card"), ("fig-muted", "card"), ("accent", "page")]
    pairs += [("good", "good-bg"), ("bad", "bad-bg"), ("warn", "warn-bg")]
    pairs += [("ink", ground) for ground in ("bad-bg", "warn-bg", "note-bg")]
    curves = [(f"fig-{role}", "card") for role in ("first", "second", "third", "fourth", "control")]
    for root in roots[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#\w{6})", root))
        for ink, ground in pairs + curves:
            low, high = sorted((luminance(colours[ink]), luminance(colours[ground])))
            ratio = (high + 0.05) / (low + 0.05)
            assert ratio >= (3.0 if (ink, ground) in curves else 4.5), (ink, ground, ratio)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_neither_torch_nor_trl_is_imported(small_run):
    code = (
        "import sys; from trl_grpo_ext.report import build_report, summary; build_report(sys.argv[1]); "
        "summary(sys.argv[1]); assert not {'torch', 'trl', 'transformers', 'matplotlib.pyplot'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(small_run)], check=True)
