"""What a task is: named splits of prompt rows, the same for the same seed."""

import hashlib
import inspect
from abc import ABC, abstractmethod

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.registry import Registry, nearest_names


SPLITS = ("sft", "rl", "eval")

_REGISTRY: Registry[type["Task"]] = Registry(
    kind="task",
    builtins={
        "apps": "trl_grpo_ext.tasks.code.apps:APPS",
        "arithmetic": "trl_grpo_ext.tasks.arithmetic:Arithmetic",
        "code_contests": "trl_grpo_ext.tasks.code.code_contests:CodeContests",
        "codeforces": "trl_grpo_ext.tasks.code.verifiable:Codeforces",
        "gsm8k": "trl_grpo_ext.tasks.gsm8k:GSM8K",
        "humaneval": "trl_grpo_ext.tasks.code.humaneval:HumanEval",
        "humaneval_plus": "trl_grpo_ext.tasks.code.humaneval:HumanEvalPlus",
        "livecodebench": "trl_grpo_ext.tasks.code.livecodebench:LiveCodeBench",
        "mbpp": "trl_grpo_ext.tasks.code.mbpp:MBPP",
        "mbpp_plus": "trl_grpo_ext.tasks.code.mbpp:MBPPPlus",
        "taco": "trl_grpo_ext.tasks.code.apps:TACO",
        "tiny_programs": "trl_grpo_ext.tasks.code.tiny_programs:TinyPrograms",
        "verifiable_coding": "trl_grpo_ext.tasks.code.verifiable:VerifiableCoding",
    },
    entry_point_group="trl_grpo_ext.tasks",
)


class Task(ABC):
    """
    A source of prompt rows. Subclasses set `source` and `license` and implement `draw`.

    The three splits never share a problem: `"sft"` rows carry a demonstration under `completion`, `"rl"` rows are the
    prompts of the reinforcement-learning stage, `"eval"` rows are held out from both.
    """

    source: str
    license: str

    def rows(self, split: str, n: int, seed: int) -> list[dict]:
        """
        Return `n` rows of a split, the same rows for the same arguments.

        Args:
            split (`str`):
                One of `"sft"`, `"rl"`, `"eval"`.
            n (`int`):
                Number of rows.
            seed (`int`):
                Seed of the draw. Which problems a split may use does not depend on it.

        Returns:
            `list[dict]`: JSON-serialisable rows with `id`, `prompt` (messages), `domain`, `answer`, `source`,
            `license` and `lang`; those of `"sft"` also have `completion` (messages).

        Raises:
            [`~errors.ConfigError`]: if the split is unknown or `n` is not positive.
            [`~errors.DataError`]: if the split holds fewer than `n` usable problems.
        """
        if split not in SPLITS:
            raise ConfigError(f"unknown split {split!r}; expected one of {', '.join(SPLITS)}")
        if n < 1:
            raise ConfigError(f"split {split!r} of task {self.source!r} was asked for {n} rows; ask for at least 1")
        rows = self.draw(split, n, seed)
        if len(rows) < n:
            raise DataError(
                f"split {split!r} of {self.source!r} holds {len(rows)} usable problems, {n} were asked for; "
                f"lower the size to {len(rows)} or less"
            )
        return rows

    @abstractmethod
    def draw(self, split: str, n: int, seed: int) -> list[dict]:
        """Return `n` rows of `split`, or fewer when it holds no more."""

    def _row(self, question: str, answer: str, completion: str | None = None) -> dict:
        row = {
            "id": hashlib.sha256(f"{self.source}\n{question}".encode()).hexdigest()[:16],
            "prompt": [{"role": "user", "content": question}],
            "domain": "math",
            "answer": answer,
            "source": self.source,
            "license": self.license,
            "lang": "en",
        }
        if completion is not None:
            row["completion"] = [{"role": "assistant", "content": completion}]
        return row


def list_tasks() -> list[str]:
    """Names of all known tasks, sorted; imports none of them."""
    return _REGISTRY.names()


def register_task(name: str):
    """Class decorator that adds a [`Task`] subclass under `name` (lower_snake_case)."""
    return _REGISTRY.register(name)


def build_task(name: str, **params) -> Task:
    """
    Build a task by name.

    Args:
        name (`str`):
            A registered name (see [`list_tasks`]) or the dotted path of a [`Task`] subclass.
        **params:
            Arguments of the task's class.

    Raises:
        [`~errors.ConfigError`]: if the name or a parameter is unknown; the message names the nearest.
    """
    task_class = _REGISTRY.get(name)
    known = list(inspect.signature(task_class).parameters)
    for param in params:
        if param not in known:
            nearest = nearest_names(param, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it takes {', '.join(known) or 'none'}"
            raise ConfigError(f"task {name!r} has no parameter {param!r}; {hint}")
    try:
        return task_class(**params)
    except TypeError as error:
        raise ConfigError(f"task {name!r} refused its parameters {params!r}: {error}") from error
