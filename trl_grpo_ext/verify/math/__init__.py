"""Is the answer in this completion mathematically the reference answer?

Three steps: `extract` finds the answer in the text; `compare` climbs from equal text over numbers, structures and
computed values; and `pool` asks a computer-algebra worker that can be killed for the rest. [`MathOptions`] holds the
conventions, [`explain_math`] shows the steps.

Covered: no completion makes a call raise, hang or grow without bound; symbolic work happens in a separate process
with a time limit and a memory limit; text of the model is parsed, never evaluated as code.

Not covered: the worker is not a sandbox (it protects against slow and greedy mathematics, not against an attacker
with a hole in the parser), and two expressions that are equal but cannot be shown to be so count as different.
"""

from trl_grpo_ext.verify.math.decision import Explanation, Rung
from trl_grpo_ext.verify.math.extract import Extraction, read_completion, read_gold
from trl_grpo_ext.verify.math.judge import check_golds, explain_math, verify_math, verify_math_batch
from trl_grpo_ext.verify.math.options import MathOptions


__all__ = [
    "Explanation",
    "Extraction",
    "MathOptions",
    "Rung",
    "check_golds",
    "explain_math",
    "read_completion",
    "read_gold",
    "verify_math",
    "verify_math_batch",
]
