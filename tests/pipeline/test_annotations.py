import pytest

from trl_grpo_ext.pipeline.annotations import fits


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("int", [0, -3], [True, 1.0, "1", None]),
        ("float", [1, 0.5], [True, "1e-6", None]),
        ("bool", [True, False], [0, "yes", None]),
        ("str", ["", "a"], [1, True, None, ["a"]]),
        ("str | None", ["a", None], [1]),
        ("Optional[int]", [1, None], ["1"]),
        ("Union[int, str]", [1, "1"], [1.5]),
        ("list[str] | str | None", [["a"], "a", None], [[1], 1]),
        ("dict[str, Any] | str | None", [{"a": object()}, "{}", None], [3]),
        ("dict[str, bool]", [{"a": True}], [{"a": 1}]),
        ("tuple[int, ...]", [[], [1, 2]], [[1, "2"], 1]),
        ("SchedulerType | str", ["cosine"], [1, None]),
        ("str | None | Literal[False]", ["a", None, False], [True, 0]),
        ("'int'", [1], ["1"]),
        ("Any", [None, 1, [1]], []),
    ],
)
def test_fits(annotation, good, bad):
    assert [value for value in good if not fits(annotation, value)] == []
    assert [value for value in bad if fits(annotation, value)] == []
