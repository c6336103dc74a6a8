"""Does the program in this completion pass the tests of its task?

`extract` finds the program in the text, [`Case`] reads the tests as datasets hold them, a sandbox runs the program,
and `output` and `values` compare what it gave with what was expected. [`CodeOptions`] holds the conventions.

Covered: expected values never enter the process of the program, and nothing it gives back is asked whether it is
equal. Nothing here parses, compiles or runs code. No completion makes a call raise, and text is searched in one pass
of limited length. A test that cannot be run, and machinery that fails, give no score instead of a low one.

Not covered: what the sandbox does not hold back; its own documentation says what that is. A program that returns the
right values for the tests passes, however it came by them. A checker that is given no expected output cannot be told
from one that an output broke, so such a task is not scored. Only Python programs can be called or asserted about;
programs in other languages read and print.
"""

from trl_grpo_ext.verify.code.case import Case
from trl_grpo_ext.verify.code.extract import Extraction, fenced, read_program
from trl_grpo_ext.verify.code.judge import Explanation, explain_code, verify_code, verify_code_batch
from trl_grpo_ext.verify.code.options import CodeOptions
from trl_grpo_ext.verify.code.outcome import Outcome


__all__ = [
    "Case",
    "CodeOptions",
    "Explanation",
    "Extraction",
    "Outcome",
    "explain_code",
    "fenced",
    "read_program",
    "verify_code",
    "verify_code_batch",
]
