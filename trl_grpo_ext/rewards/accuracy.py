"""Is the final answer right? The maths verifier as a reward."""

from collections.abc import Sequence
from typing import Literal

from trl_grpo_ext.rewards.judged import JudgedReward
from trl_grpo_ext.rewards.text import OpeningTag
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.math import MathOptions, verify_math_batch
from trl_grpo_ext.verify.math.judge import DEFAULT_TIMEOUT


class MathReward(JudgedReward):
    """
    1.0 if the final answer of a completion is mathematically the reference, 0.0 if not, `None` if that could not be
    judged (an unusable reference, or a failure of the judging machinery).

    This is the accuracy reward of DeepSeek-R1 (https://huggingface.co/papers/2501.12948). Logs per row what was
    compared and why (`math_answer`, `math_kind`, `math_reason`), and per batch the shares of timeouts, of
    rows without an answer and of failures of the judge, and how long judging took.

    A reward cannot see whether the length limit ended a completion. Where answers given in passing must not count, set
    TRL's `mask_truncated_completions`.

    Args:
        answer_column (`str`, *optional*):
            Dataset column that holds the reference. By default `"answer"`, or `"solution"` where there is no
            `"answer"`.
        timeout (`float`, *optional*, defaults to `1.5`):
            Seconds one symbolic comparison may take. The completion that makes it take longer gets 0.0.
        opening_tag (`str`, *optional*, defaults to `"auto"`):
            Where the `<think>` of a completion stands: `"in_completion"`, `"in_prompt"` (the chat template opens it),
            or `"auto"`: in the prompt if the prompt's text ends with it. With `"in_prompt"`, a completion that never
            closes its reasoning has no answer, whatever boxes it holds.
        tolerance (`float`, *optional*, defaults to `0.0`):
            Relative difference between two numbers that is forgiven; 0.0 forgives float noise only.
        percent (`str`, *optional*, defaults to `"optional"`):
            What 50% equals: `"optional"`: 50%, 0.5 and a bare 50; `"value"`: 50% and 0.5; `"sign"`: only what has the
            sign, too.
        units (`str`, *optional*, defaults to `"optional"`):
            `"optional"`: a unit or currency may be left out or added; `"required"`: the unit of the reference has to
            be there; `"ignored"`: any unit will do.
        ordered_lists (`bool`, *optional*, defaults to `False`):
            Whether the members of a bare list or a set have to come in the order of the reference.
        ordered_tuples (`bool`, *optional*, defaults to `True`):
            Whether the members of a tuple have to come in the order of the reference.
        strict_parts (`bool`, *optional*, defaults to `True`):
            Whether an answer has to give all members of a list. If not, some are enough, as long as none is wrong.
        fallback (`str`, *optional*, defaults to `"last_expression"`):
            What counts without box, answer tag or announced answer: `"last_expression"`, or `"none"`: nothing.
        answer_tags (`list[str]`, *optional*, defaults to `("answer",)`):
            Names of the tags that hold the final answer.
        choice_text (`bool`, *optional*, defaults to `True`):
            Whether the text of an option may follow the letter, as in "(B) 5".
        thinking_end (`str`, *optional*):
            What ends the thinking, where it is not `</think>`.
        decimal_comma (`bool`, *optional*, defaults to `False`):
            Whether a comma between digits is a decimal sign and a full stop separates thousands.

    Raises:
        [`~errors.ConfigError`]: if a value is none of these.

    Example:
    ```python
    >>> from trl_grpo_ext.rewards import MathReward

    >>> MathReward()(prompts=["1/2 + 1/4?"], completions=["So \\\\boxed{0.75}"], answer=["\\\\frac{3}{4}"])
    [1.0]
    ```
    """

    __name__ = "math_reward"
    domain = "math"
    columns = ("answer", "solution")
    column_parameter = "answer_column"

    def __init__(
        self,
        answer_column: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        opening_tag: OpeningTag = "auto",
        tolerance: float = 0.0,
        percent: Literal["optional", "value", "sign"] = "optional",
        units: Literal["optional", "required", "ignored"] = "optional",
        ordered_lists: bool = False,
        ordered_tuples: bool = True,
        strict_parts: bool = True,
        fallback: Literal["last_expression", "none"] = "last_expression",
        answer_tags: Sequence[str] = ("answer",),
        choice_text: bool = True,
        thinking_end: str | None = None,
        decimal_comma: bool = False,
    ):
        super().__init__(answer_column, opening_tag, thinking_end)
        self.options = MathOptions(
            tolerance=tolerance,
            percent=percent,
            units=units,
            ordered_lists=ordered_lists,
            ordered_tuples=ordered_tuples,
            strict_parts=strict_parts,
            fallback=fallback,
            answer_tags=answer_tags,
            choice_text=choice_text,
            thinking_end=thinking_end,
            decimal_comma=decimal_comma,
        )
        self.timeout = timeout

    def _judge(self, references: list, texts: list[str]) -> list[Verdict]:
        return verify_math_batch(references, texts, options=self.options, timeout=self.timeout)

    def _logged(self, verdicts: list[Verdict]) -> dict[str, list[str]]:
        return {"answer": [verdict.answer or "" for verdict in verdicts], **super()._logged(verdicts)}
