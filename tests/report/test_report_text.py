import pytest

from trl_grpo_ext.report.text import duration, percent, shorten, spoken, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode שלום 你好 🙂\n\tend", "plain ünïcode שלום 你好 🙂\n\tend"),
        ("\x1b[31mred", "␛[31mred"),
        ("a\x00b\r\n", "a␀b␍\n"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("a\u200bb\ufeff", "a[U+200B]b[U+FEFF]"),
        ("\ud83d alone", "[U+D83D] alone"),
        ("no\u00a0break", "no break"),
        ("\x9b2J", "[U+009B]2J"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown
    visible(text).encode("utf-8")


def test_a_long_text_keeps_its_end_and_says_what_is_missing():
    text, note = shorten("x" * 100_000 + "the answer is 7")
    assert text.endswith("the answer is 7")
    assert "97,615 characters left out" in text
    assert note == "Shortened: 97,615 of 100,015 characters"
    assert len(text) < 2_500


def test_a_short_text_is_whole():
    assert shorten("x" * 2_400) == ("x" * 2_400, "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("a", "a"),
        ([{"role": "user", "content": "hi"}], "hi"),
        ([{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}], "system: be\n\nuser: hi"),
        ([{"role": "user", "content": [{"type": "text"}]}], '[{"type": "text"}]'),
        ({"a": 1}, '{"a": 1}'),
        (3, "3"),
    ],
)
def test_spoken(value, text):
    assert spoken(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0.0 s"), (9.94, "9.9 s"), (59.6, "1 min 0 s"), (192, "3 min 12 s"), (7_384, "2 h 3 min")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(None, "–"), (0.0, "0.0 %"), (0.0001, "< 0.1 %"), (0.785, "78.5 %"), (1.0, "100.0 %")]
)
def test_percent(share, text):
    assert percent(share) == text
