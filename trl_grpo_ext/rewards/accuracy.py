"""Is the final answer right? The maths verifier as a reward."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.rewards.text import OpeningTag, check_opening_tag, completion_text, prompt_opens_thinking
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.math import MathOptions, verify_math_batch
from trl_grpo_ext.verify.math.extract import thinking_start
from trl_grpo_ext.verify.math.judge import DEFAULT_TIMEOUT


_DEFAULT_COLUMNS = ("answer", "solution")
_NOT_COLUMNS = frozenset({"trainer_state", "environments"})


class MathReward:
    """
    1.0 if the final answer of a completion is mathematically the reference, 0.0 if not, `None` if that could not be
    judged (an unusable reference, or a failure of the judging machinery).

    This is the accuracy reward of DeepSeek-R1 (https://huggingface.co/papers/2501.12948). Logs per row what was
    compared and why (`math_answer`, `math_kind`, `math_reason`), and per batch the shares of timeouts and of
    rows without an answer, and how long judging took.

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
    default_mode = "add"
    default_required = True

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
        check_opening_tag(opening_tag)
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
        self.answer_column = answer_column
        self.timeout = timeout
        self.opening_tag = opening_tag

    def __call__(
        self,
        prompts: list,
        completions: list,
        completion_ids: list[list[int]] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """
        Judge a batch.

        Raises:
            [`~errors.DataError`]: if the dataset has no column with the reference.
        """
        golds = self._golds(columns)
        texts = [self._text(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        started = time.perf_counter()
        verdicts = verify_math_batch(golds, texts, options=self.options, timeout=self.timeout)
        if log_extra is not None:
            log_extra("math_answer", [verdict.answer or "" for verdict in verdicts])
            log_extra("math_kind", [verdict.kind for verdict in verdicts])
            log_extra("math_reason", [verdict.reason for verdict in verdicts])
        if log_metric is not None:
            self._log_metrics(verdicts, time.perf_counter() - started, log_metric)
        return [verdict.value for verdict in verdicts]

    def _golds(self, columns: dict[str, Any]) -> list:
        wanted = (self.answer_column,) if self.answer_column else _DEFAULT_COLUMNS
        for column in wanted:
            if column in columns:
                return columns[column]
        seen = ", ".join(sorted(columns.keys() - _NOT_COLUMNS)) or "none besides the prompt"
        raise DataError(
            f"the math reward needs the reference in column {' or '.join(map(repr, wanted))}; the dataset has {seen}. "
            "Rename the column, or set the reward's answer_column."
        )

    def _text(self, prompt: Any, completion: Any) -> str:
        text = completion_text(completion)
        mark = thinking_start(self.options)
        return f"{mark}{text}" if prompt_opens_thinking(self.opening_tag, prompt, mark) else text

    def _log_metrics(self, verdicts: list[Verdict], seconds: float, log_metric: Callable[[str, float], None]) -> None:
        if not verdicts:
            return
        kinds = [verdict.kind for verdict in verdicts]
        log_metric(f"{self.__name__}/timeout_frac", kinds.count("timeout") / len(kinds))
        log_metric(f"{self.__name__}/no_answer_frac", kinds.count("no_answer") / len(kinds))
        slowest_first = sorted((verdict.seconds for verdict in verdicts), reverse=True)
        log_metric(f"{self.__name__}/seconds", seconds)
        log_metric(f"{self.__name__}/seconds_p50", slowest_first[len(slowest_first) // 2])
        log_metric(f"{self.__name__}/seconds_p95", slowest_first[len(slowest_first) // 20])
