"""Does the reasoning stay in the language of the question? Counted by writing system."""

import re
from collections.abc import Callable
from typing import Any

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.registry import nearest_names
from trl_grpo_ext.rewards.text import completion_text


_SCRIPTS = {
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "cyrillic": "\u0400-\u052f",
    "devanagari": "\u0900-\u097f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "hangul": "\u1100-\u11ff\uac00-\ud7af",
    "hebrew": "\u0590-\u05ff",
    "kana": "\u3040-\u30ff",
    "latin": "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff",
    "thai": "\u0e00-\u0e7f",
}
_LATIN = ("cs", "de", "en", "es", "fi", "fr", "id", "it", "nl", "pl", "pt", "ro", "sv", "tr", "vi")
_LANGUAGES = {
    **dict.fromkeys(_LATIN, ("latin",)),
    **dict.fromkeys(("bg", "ru", "uk"), ("cyrillic",)),
    **dict.fromkeys(("ar", "fa", "ur"), ("arabic",)),
    "el": ("greek",),
    "he": ("hebrew",),
    "hi": ("devanagari",),
    "ja": ("han", "kana"),
    "ko": ("hangul",),
    "th": ("thai",),
    "zh": ("han",),
}
_UNSPACED = ("han", "kana", "thai")  # written without spaces: each character counts as a word
_WORD = re.compile(
    "|".join(f"(?P<{name}>[{span}]{'' if name in _UNSPACED else '{2,}'})" for name, span in _SCRIPTS.items())
)
# A formula ends before the next one begins, so that openings without an end cost no second scan of the text.
_NOT_LANGUAGE = re.compile(
    r"```.*?```|`[^`\n]*`|\$\$[^$]*\$\$|\$[^$\n]*\$"
    r"|\\\((?:(?!\\[()]).)*\\\)|\\\[(?:(?!\\[\[\]]).)*\\\]|\\begin\{\w+\*?\}(?:(?!\\begin|\\end).)*\\end\{\w+\*?\}"
    r"|\\[a-zA-Z]+|</?\w+>|https?://\S+",
    re.DOTALL,
)


class LanguageReward:
    """
    Share of the words of the reasoning that are in the target language: the language-consistency reward of DeepSeek-R1
    (https://huggingface.co/papers/2501.12948), which published the ratio but not how words are assigned to languages.

    Here a word is assigned by its **writing system**: this finds Chinese inside English reasoning, the mixing the
    paper reports, but cannot tell English from French, nor Chinese from Japanese written in Han characters alone.
    Formulas, code, digits, links, tags and single letters (variables) are not counted; in scripts without spaces each
    character is a word.

    The reasoning is what stands inside `<think>`; without tags, the whole completion.

    Args:
        language (`str`, *optional*, defaults to `"en"`):
            ISO 639-1 code of the target language.
        language_column (`str`, *optional*):
            Dataset column with the code per row; overrides `language`.

    Raises:
        [`~errors.ConfigError`]: if a language is not known.

    Example:
    ```python
    >>> from trl_grpo_ext.rewards import LanguageReward

    >>> LanguageReward()(completions=["<think>first add 然后</think>"])
    [0.5]
    ```
    """

    __name__ = "language_reward"
    default_mode = "add"
    default_required = False

    def __init__(self, language: str = "en", language_column: str | None = None):
        _scripts_of(language)
        self.language = language
        self.language_column = language_column

    def __call__(
        self,
        prompts: list | None = None,
        completions: list | None = None,
        completion_ids: list[list[int]] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """
        Score a batch. Reasoning without any word, or a row without a language, gives `None`; no reasoning gives 0.0.

        Raises:
            [`~errors.DataError`]: if the dataset has no column `language_column`.
        """
        completions = completions or []
        return [
            None if language is None else consistency(_reasoning(completion_text(completion)), language)
            for completion, language in zip(completions, self._languages(columns, len(completions)), strict=True)
        ]

    def _languages(self, columns: dict[str, Any], count: int) -> list[str | None]:
        if self.language_column is None:
            return [self.language] * count
        if self.language_column not in columns:
            raise DataError(
                f"the language reward needs the column {self.language_column!r}; the dataset has "
                f"{', '.join(sorted(columns)) or 'none besides the prompt'}. Set its language_column."
            )
        return columns[self.language_column]


def consistency(text: str, language: str) -> float | None:
    """
    Share of the words of `text` that are written in a script of `language`.

    Args:
        text (`str`):
            Reasoning, with formulas and code.
        language (`str`):
            ISO 639-1 code.

    Returns:
        `float` or `None`: `None` if there are no words; 0.0 for an empty text.
    """
    scripts = _scripts_of(language)
    if not text.strip():
        return 0.0
    words = [match.lastgroup for match in _WORD.finditer(_NOT_LANGUAGE.sub(" ", text))]
    return sum(script in scripts for script in words) / len(words) if words else None


def _scripts_of(language: str) -> tuple[str, ...]:
    code = language.lower().replace("_", "-").split("-")[0]
    if code not in _LANGUAGES:
        nearest = nearest_names(code, list(_LANGUAGES)) or sorted(_LANGUAGES)
        raise ConfigError(f"language reward: unknown language {language!r}; known and near: {', '.join(nearest)}")
    return _LANGUAGES[code]


def _reasoning(text: str) -> str:
    thinking, closed, _ = text.rpartition("</think>")
    if not closed:
        thinking = text
    return thinking.replace("<think>", " ")
