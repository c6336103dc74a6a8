"""What rewards that ask a judge share: where the reference stands, what is judged, what is logged."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.rewards.text import OpeningTag, check_opening_tag, completion_text, prompt_opens_thinking
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.thinking import thinking_start


_NOT_COLUMNS = frozenset({"trainer_state", "environments"})
_FRACTIONS = {"timeout_frac": "timeout", "no_answer_frac": "no_answer", "infra_frac": "infra_error"}


class JudgedReward(ABC):
    """
    A reward that is the value of a verdict, `None` where there is none. Logs per row what kind of verdict it is and
    why, and per batch the shares of timeouts, of completions without an answer and of failures of the judge, and how
    long judging took.

    Subclasses name the kind of problem (`domain`) and the columns of the reference, and implement `_judge`.

    Args:
        column (`str`, *optional*):
            Dataset column that holds the reference, where it is none of `columns`.
        opening_tag (`str`, *optional*, defaults to `"auto"`):
            Where the opening mark of a completion's thinking stands: `"in_completion"`, `"in_prompt"`, or `"auto"`:
            in the prompt if the prompt's text ends with it.
        thinking_end (`str`, *optional*):
            What ends the thinking, where it is not `</think>`. The opening mark is the same without its slash; where
            it has none, there is no opening mark to find, and `"auto"` is `"in_completion"`.

    Raises:
        [`~errors.ConfigError`]: if `opening_tag` is none of these.
    """

    __name__: str
    domain: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    column_parameter: ClassVar[str]
    default_mode = "add"
    default_required = True

    def __init__(self, column: str | None, opening_tag: OpeningTag, thinking_end: str | None):
        check_opening_tag(opening_tag)
        self.column = column
        self.opening_tag = opening_tag
        self.thinking_end = thinking_end
        self.thinking_start = thinking_start(thinking_end)

    @abstractmethod
    def _judge(self, references: list, texts: list[str]) -> list[Verdict]:
        """One verdict for each reference and text."""

    def start(self) -> None:  # noqa: B027  (most judges are always ready)
        """Make sure that the judge can work, before a long wait for what it is to judge; raises if it cannot."""

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
        started = time.perf_counter()
        verdicts = self.verdicts(prompts, completions, **columns)
        if log_extra is not None:
            for name, values in self._logged(verdicts).items():
                log_extra(f"{self.domain}_{name}", values)
        if log_metric is not None and verdicts:
            for name, value in _metrics(verdicts, time.perf_counter() - started).items():
                log_metric(f"{self.__name__}/{name}", value)
        return [verdict.value for verdict in verdicts]

    def verdicts(self, prompts: list, completions: list, **columns: Any) -> list[Verdict]:
        """
        The verdicts on a batch, given as a trainer gives it.

        Args:
            prompts (`list`):
                The prompts, as text or messages.
            completions (`list`):
                One completion for each, as text or messages.
            **columns:
                Columns of the dataset, one value for each completion; among them the reference.

        Returns:
            `list[Verdict]`: One verdict for each completion, in order.

        Raises:
            [`~errors.DataError`]: if the dataset has no column with the reference.
        """
        column = self.column_of(columns)
        if column not in columns:
            seen = ", ".join(sorted(columns.keys() - _NOT_COLUMNS)) or "none besides the prompt"
            wanted = " or ".join(map(repr, (self.column,) if self.column else self.columns))
            raise DataError(
                f"the {self.domain} reward needs the reference in column {wanted}; the dataset has {seen}. Rename the "
                f"column, or set the reward's {self.column_parameter}."
            )
        texts = [self._text(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        return self._judge(columns[column], texts)

    def column_of(self, columns: Collection[str]) -> str:
        """The column of a dataset in which the reference is, or should be."""
        return self.column or next((name for name in self.columns if name in columns), self.columns[0])

    def expected(self, row: Mapping[str, Any]) -> str:
        """What a reader is shown of the reference of a row."""
        return str(row[self.column_of(row)])

    def _text(self, prompt: Any, completion: Any) -> str:
        text = completion_text(completion)
        if not prompt_opens_thinking(self.opening_tag, prompt, self.thinking_start):
            return text
        if self.thinking_start is not None:
            return f"{self.thinking_start}{text}"
        # No mark tells the judge that thinking was begun; where it never ends, nothing was said after it.
        return text if self.thinking_end and self.thinking_end in text else ""

    def _logged(self, verdicts: list[Verdict]) -> dict[str, list[str]]:
        return {
            "kind": [verdict.kind for verdict in verdicts],
            "reason": [verdict.reason for verdict in verdicts],
        }


def _metrics(verdicts: list[Verdict], seconds: float) -> dict[str, float]:
    kinds: list[str] = [verdict.kind for verdict in verdicts]
    slowest_first = sorted((verdict.seconds for verdict in verdicts), reverse=True)
    return {
        **{name: kinds.count(kind) / len(kinds) for name, kind in _FRACTIONS.items()},
        "seconds": seconds,
        "seconds_p50": slowest_first[len(slowest_first) // 2],
        "seconds_p95": slowest_first[len(slowest_first) // 20],
    }
