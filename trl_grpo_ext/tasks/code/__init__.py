"""Programming problems: rows of published datasets turned into cases, and a task of tiny programs of our own.

An adapter, such as [`humaneval_case`], is a pure function from a row as its dataset publishes it to a case for
`verify/code`: `format`, `tests`, `entry_point`, `time_limit`, where there is one `preamble`, `memory_limit_mb`,
`checker`, `language`, and the `prompt` for the model. It reads the row and runs nothing of it; a row that cannot be
judged raises [`~errors.DataError`].

Importing this package imports neither torch nor `datasets`.
"""

from trl_grpo_ext.tasks.code.apps import APPS, TACO, apps_case, taco_case
from trl_grpo_ext.tasks.code.code_contests import CodeContests, code_contests_case
from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.humaneval import HumanEval, HumanEvalPlus, humaneval_case, humaneval_plus_case
from trl_grpo_ext.tasks.code.livecodebench import LiveCodeBench, livecodebench_case
from trl_grpo_ext.tasks.code.mbpp import MBPP, MBPPPlus, mbpp_case, mbpp_plus_case
from trl_grpo_ext.tasks.code.tiny_programs import TinyPrograms
from trl_grpo_ext.tasks.code.verifiable import Codeforces, VerifiableCoding, codeforces_case, verifiable_coding_case


__all__ = [
    "APPS",
    "MBPP",
    "TACO",
    "CodeContests",
    "CodeTask",
    "Codeforces",
    "HumanEval",
    "HumanEvalPlus",
    "LiveCodeBench",
    "MBPPPlus",
    "TinyPrograms",
    "VerifiableCoding",
    "apps_case",
    "code_contests_case",
    "codeforces_case",
    "humaneval_case",
    "humaneval_plus_case",
    "livecodebench_case",
    "mbpp_case",
    "mbpp_plus_case",
    "taco_case",
    "verifiable_coding_case",
]
