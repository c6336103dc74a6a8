"""A long run of the maths judge over hostile and honest answers: no exception, no growing memory."""

import json
from pathlib import Path

import psutil
import pytest

from trl_grpo_ext.verify import verify_math_batch


CASES = Path(__file__).parents[1] / "cases"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_stays_bounded():
    rows = [
        json.loads(line)
        for name in ("math.jsonl", "math_adversarial.jsonl")
        for line in (CASES / name).read_text(encoding="utf-8").splitlines()
    ]
    golds, completions = [row["gold"] for row in rows], [row["completion"] for row in rows]
    first = verify_math_batch(golds, completions)
    before = psutil.Process().memory_info().rss
    for turn in range(20):
        # A new tail each turn: nothing may be answered from a memory of earlier calls.
        verdicts = verify_math_batch(golds, [f"turn {turn}. {completion}" for completion in completions])
        assert [verdict.value for verdict in verdicts] == [verdict.value for verdict in first]
    assert psutil.Process().memory_info().rss - before < 64 * 2**20
