"""Does the program pass its tests? The judge of programs as a reward."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.rewards.judged import JudgedReward
from trl_grpo_ext.rewards.text import OpeningTag
from trl_grpo_ext.sandbox import open_sandbox
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.code import CodeOptions, verify_code_batch


Credit = Literal["all", "fraction", "weighted"]

_logger = logging.getLogger(__name__)


class CodeReward(JudgedReward):
    """
    1.0 if the program in a completion passes all tests of its task, 0.0 if not, `None` if that could not be judged
    (the tests are unusable, or the sandbox failed).

    Programs run in a sandbox, which is opened when the reward is first called, in the process that calls. Where it
    cannot isolate programs as asked, that call raises, and so does one in which the sandbox fails for every program of
    the batch: a run should not train on rows that nobody judged. Logs per row what came of it (`code_kind`,
    `code_reason`), and per batch the shares of timeouts, of completions without a program and of failures of the
    sandbox, and how long judging took.

    Args:
        case_column (`str`, *optional*):
            Dataset column that holds the tests, `"case"` by default: mappings or their JSON text, as
            [`~trl_grpo_ext.verify.code.Case`] reads them.
        credit (`str`, *optional*):
            What a program earns that passes some tests: `"all"`: nothing, the default of the reward `code`;
            `"fraction"`: the share of the tests it passes; `"weighted"`: the share of the `weights` of the case, or of
            the tests where it has none, the default of the reward `code_fraction`.
        sandbox (`str` or `dict`, *optional*):
            Where programs run, as [`~trl_grpo_ext.sandbox.open_sandbox`] takes it: a name, or a mapping with `name`
            and options, such as `{"name": "local", "packages": ["numpy"]}`. By default the local sandbox.
        opening_tag (`str`, *optional*, defaults to `"auto"`):
            Where the `<think>` of a completion stands: `"in_completion"`, `"in_prompt"` (the chat template opens it),
            or `"auto"`: in the prompt if the prompt's text ends with it. With `"in_prompt"`, a completion that never
            closes its reasoning has no program, whatever code it holds.
        fence (`str`, *optional*, defaults to `"required"`):
            Whether a program has to stand in a fenced block. With `"optional"`, a text without any fence that looks
            like code is the program.
        float_tolerance (`float`, *optional*):
            Tolerance of decimal numbers for cases that state none: `|a - b| <= tolerance * max(1, |expected|)`.
        thinking_end (`str`, *optional*):
            What ends the thinking, where it is neither `</think>` nor `<|end_of_thought|>`.

    Raises:
        [`~errors.ConfigError`]: if a value is none of these.

    Example:
    ````python
    >>> from trl_grpo_ext.rewards import CodeReward

    >>> case = {"format": "stdio", "tests": [{"input": "7", "output": "14"}]}
    >>> completion = "```python\\nprint(2 * int(input()))\\n```"
    >>> CodeReward()(prompts=["Double the number."], completions=[completion], case=[case])
    [1.0]
    ````
    """

    __name__ = "code_reward"
    domain = "code"
    columns = ("case",)
    column_parameter = "case_column"
    default_credit: ClassVar[Credit] = "all"

    def __init__(
        self,
        case_column: str | None = None,
        credit: Credit | None = None,
        sandbox: str | dict[str, Any] | None = None,
        opening_tag: OpeningTag = "auto",
        fence: Literal["required", "optional"] = "required",
        float_tolerance: float | None = None,
        thinking_end: str | None = None,
    ):
        super().__init__(case_column, opening_tag, thinking_end)
        self.options = CodeOptions(
            credit=self.default_credit if credit is None else credit,
            fence=fence,
            float_tolerance=float_tolerance,
            thinking_end=thinking_end,
        )
        self.sandbox = sandbox
        self._isolated = False

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_isolated": False}  # of this process; another may be on another machine

    def start(self) -> None:
        """
        Open the sandbox.

        Raises:
            [`~errors.ConfigError`]: if there is no such sandbox or option.
            [`~errors.SandboxError`]: if it cannot be started, or not with the isolation that is asked for.
        """
        if not self._isolated:
            _logger.info("programs are isolated at the level %s", open_sandbox(self.sandbox).isolation())
            self._isolated = True

    def expected(self, row: Mapping[str, Any]) -> str:
        """The reference solution of a row; empty where it has none."""
        return str(row.get("answer") or "")

    def _judge(self, references: list, texts: list[str]) -> list[Verdict]:
        self.start()
        verdicts = verify_code_batch(texts, references, options=self.options, sandbox=self.sandbox)
        if verdicts and all(verdict.kind == "infra_error" for verdict in verdicts):
            raise SandboxError(
                f"nobody could judge any of the {len(verdicts)} programs of a batch; the first reason: "
                f"{verdicts[0].reason}. `trl-grpo-ext doctor` tells what this machine lacks; mend that, or leave out "
                "such rows"
            )
        return verdicts


class CodeFractionReward(CodeReward):
    """
    Share of its tests that the program in a completion passes, by the `weights` of the case where it has any. `None`
    if that could not be judged. This is [`CodeReward`] with another default of `credit`; all else is the same.

    A share is easier to earn than a whole program, and to collect without one: a constant passes the tests that expect
    it. Add it with a small weight beside `code`, or compare runs with both.
    """

    __name__ = "code_fraction_reward"
    default_credit = "weighted"
