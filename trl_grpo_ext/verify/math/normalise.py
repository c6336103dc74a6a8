"""Spell an answer one way: Unicode to LaTeX, LaTeX without styling, numbers without separators of taste."""

import re
import unicodedata


_UNICODE = str.maketrans(
    {
        **dict.fromkeys("−–—﹣－", "-"),
        **dict.fromkeys("×✕", r" \times "),
        **dict.fromkeys("·⋅∙", r" \cdot "),
        **dict.fromkeys("\u00a0\u2009\u202f\u3000\u2007", " "),
        "÷": "/",
        "⁄": "/",
        "∕": "/",
        "°": r"^\circ ",
        "∞": r"\infty ",
        "∪": r" \cup ",
        "∩": r" \cap ",
        "∈": r" \in ",
        "∅": r"\emptyset ",
        "⌀": r"\emptyset ",
        "≤": r" \le ",
        "⩽": r" \le ",
        "≥": r" \ge ",
        "⩾": r" \ge ",
        "≠": r" \ne ",
        "≈": r" \approx ",
        "±": r" \pm ",
        "∓": r" \mp ",
        "π": r"\pi ",
        "θ": r"\theta ",
        "α": r"\alpha ",
        "β": r"\beta ",
        "λ": r"\lambda ",
        "φ": r"\phi ",
        "ω": r"\omega ",
        "′": "'",
        "’": "'",
        "½": r"\frac{1}{2}",
        "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}",
        "⅓": r"\frac{1}{3}",
        "⅔": r"\frac{2}{3}",
        "⅕": r"\frac{1}{5}",
        "⅛": r"\frac{1}{8}",
        "，": ",",
        "：": ":",
        "（": "(",
        "）": ")",
        "％": "%",
        "。": ".",
    }
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_HIGHER_ROOT = re.compile(r"([∛∜])\s*(\d+(?:\.\d+)?|[a-zA-Z])")
_ROOT = re.compile(r"√\s*(?:(\d+(?:\.\d+)?|[a-zA-Z])|(?=[({]))")

_THOUSANDS_STOP = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:\.\d{3})+(?![\d.])")
_DECIMAL_COMMA = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d)")
_ROW_BREAK = "\u2424"
_PERCENT = r"(?:per\s?cent(?:age|s)?|pct)"
_SAME = (
    (re.compile(r"\\(?:[dtc]frac)(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\(?:[dt]binom)(?![a-zA-Z])"), r"\\binom"),
    (
        re.compile(
            r"\\(?:left|right|bigl|bigr|Bigl|Bigr|biggl|biggr|big|Big|bigg|Bigg|mleft|mright)(?![a-zA-Z])\s*\.?"
        ),
        "",
    ),
    (re.compile(r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|bf|rm|it|cal|boldmath)(?![a-zA-Z])"), ""),
    (re.compile(r"\\(?:color|textcolor)\s*\{[^{}]*\}"), ""),
    (re.compile(r"\\(?:leq|leqslant)(?![a-zA-Z])"), r"\\le"),
    (re.compile(r"\\(?:geq|geqslant)(?![a-zA-Z])"), r"\\ge"),
    (re.compile(r"\\neq(?![a-zA-Z])"), r"\\ne"),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb)(?![a-zA-Z])"), r"\\ldots "),
    (re.compile(r"\.\.\."), r"\\ldots "),
    (re.compile(r"\\(max|min|gcd|lcm)\s*\\\{([^{}\\]{1,200})\\\}"), r"\\\1(\2)"),
    (re.compile(r"\{\s*([^{}]{1,100}?)\s*\\choose(?![a-zA-Z])\s*([^{}]{1,100}?)\s*\}"), r"\\binom{\1}{\2}"),
    (re.compile(r"\\var(phi|epsilon|theta|rho|sigma)(?![a-zA-Z])"), r"\\\1"),
    (re.compile(r"\\text\s*\{\s*\\?([$€£¥%])\s*\}"), r"\1"),
    (re.compile(r"\\underline\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\mathbb\s*([A-Z])(?![a-zA-Z])"), r"\\mathbb{\1}"),
    (re.compile(r"\\(?:wide)?hat\s*\{?\s*\\?([ijk])(?:math)?(?![a-zA-Z])\s*\}?"), r" \1 "),
    (re.compile(r"\\text\s*\{\s*(?:positive\s+|\+)?infinity\s*\}", re.IGNORECASE), r"\\infty "),
    (re.compile(r"\\text\s*\{\s*(?:negative\s+|-)infinity\s*\}", re.IGNORECASE), r"-\\infty "),
    (re.compile(r"\A(?:positive\s+)?infinity\Z", re.IGNORECASE), r"\\infty "),
    (re.compile(r"\Anegative\s+infinity\Z", re.IGNORECASE), r"-\\infty "),
    (re.compile(r"\\lt(?![a-zA-Z])"), "<"),
    (re.compile(r"\\gt(?![a-zA-Z])"), ">"),
    (re.compile(r"\\(?:varnothing|O)(?![a-zA-Z])"), r"\\emptyset"),
    (re.compile(r"\\colon(?![a-zA-Z])"), ":"),
    (re.compile(r"\\(?:lbrace)(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\(?:lbrack)(?![a-zA-Z])"), "["),
    (re.compile(r"\\(?:rbrack)(?![a-zA-Z])"), "]"),
    (re.compile(r"\\(?:langle|rangle)(?![a-zA-Z])"), lambda m: "(" if m.group() == r"\langle" else ")"),
    (re.compile(r"\\operatorname\*?\s*\{\s*(sin|cos|tan|cot|sec|csc|ln|log|gcd|lcm|max|min|exp)\s*\}"), r"\\\1 "),
    (re.compile(r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?"), r"^\\circ "),
    (re.compile(r"\\degree(?![a-zA-Z])"), r"^\\circ "),
    (re.compile(r"<="), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"!="), r"\\ne "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<=\d),?\s*\\[!,]\s*(?=\d{3}(?!\d))"), ","),
    (re.compile(r"(?<=\d)\{,\}(?=\d{3}(?!\d))"), ","),
    (re.compile(r"(?<=\d)\{,\}(?=\d)"), "."),
    (re.compile(r"\{:\}"), ":"),
    (re.compile(r"\\(?:[!,;: ]|quad|qquad|hspace\{[^{}]*\}|phantom\{[^{}]*\})"), " "),
    (re.compile(r"~"), " "),
    (re.compile(r"\\([%$#])"), r"\1"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac\s*(\d)\s*\{"), r"\\frac{\1}{"),
    (re.compile(r"\\frac\s*(\{[^{}]{1,200}\})\s*([0-9a-zA-Z])"), r"\\frac\1{\2}"),
    (re.compile(r"\\(frac|binom)\s*([0-9a-zA-Z])\s*([0-9a-zA-Z])"), r"\\\1{\2}{\3}"),
    (re.compile(r"\\sqrt\s*(\d|[a-zA-Z])"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\a-zA-Z])sqrt\s*\(([^()]{1,200})\)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\a-zA-Z])(pi|exp)(?![a-zA-Z])"), r"\\\1 "),
    (re.compile(r"\\log_\{?e\}?(?![a-zA-Z])"), r"\\ln "),
    (re.compile(r"\\(?:mathrm|mathbf|mathit|rm)\s*\{\s*([a-zA-Z])\s*\}"), r"\1"),
    (re.compile(r"(?<![\w}])\{([a-zA-Z])\}(?=_)"), r"\1"),
    (re.compile(r"\\(?:text|mathrm|operatorname)\s*\{\s*(gcd|lcm|max|min|sin|cos|tan|ln|log)\s*\}"), r"\\\1 "),
    (
        re.compile(r"\(?\s*\\(?:text|mathrm)\s*\{\s*mod\s*\}\s*(\w+)\s*\)?|\(\s*\\text\s*\{\s*mod\s+\}?\s*(\w+)\s*\)"),
        r"\\pmod{\1\2}",
    ),
    (re.compile(r"\\(begin|end)\{(?:b|small)matrix\}"), r"\\\1{pmatrix}"),
    (
        re.compile(
            r"[(\[]\s*\\begin\{(?:array\}\s*\{[^{}]*\}|matrix\})((?:(?!\\begin|\\end).)*)\\end\{(?:array|matrix)\}\s*[)\]]"
        ),
        r"\\begin{pmatrix}\1\\end{pmatrix}",
    ),
    (
        re.compile(r"[(\[]\s*(\\begin\{pmatrix\}(?:(?!\\begin|\\end).)*\\end\{pmatrix\})\s*[)\]]\Z"),
        r"\1",
    ),
    (re.compile(_ROW_BREAK + r"\s*\[\s*-?[\d.]+\s*(?:pt|ex|em|mm|cm)\s*\]"), _ROW_BREAK),
    (
        re.compile(
            r"\\(?:mathbf|boldsymbol|mathit|bm|mathrm|textbf|emph|textit|mathsf|mathbb)\s*\{\s*([-+\d.,]+)\s*\}"
        ),
        r"\1",
    ),
    (re.compile(r"\\(?:text|mbox|mathrm)\s*\{\s*\}"), " "),
    (re.compile(r"\\text\s*\{\s*([-+\d.,:]*\d)\s*\}"), r"\1"),
    (re.compile(r"\\(?:mbox|textrm|textnormal|textbf|textit|emph|textsf|textup|mathrm|mathbf)\s*\{"), r"\\text{"),
    (re.compile(rf"\\text\s*\{{\s*(\d[\d.,]*)\s*(?:%|{_PERCENT})\.?\s*\}}", re.IGNORECASE), r"\1%"),
    (re.compile(rf"(?<=\S)\s*\\text\s*\{{\s*(?:%|{_PERCENT})\.?\s*\}}", re.IGNORECASE), "%"),
    (re.compile(rf"(?<=[\d}})])\s*{_PERCENT}(?!\.?\s*[a-zA-Z])", re.IGNORECASE), "%"),
)
_SAME_WITHOUT_COMMANDS = tuple(rule for rule in _SAME if not rule[0].pattern.startswith(r"\\"))
_SIMPLEST = re.compile(r"-?[0-9]+(?:\.[0-9]+)?\Z")  # numeric tasks hold little else, and it is spelled one way already
_LOOK = re.compile(
    r"\\(?:huge|Huge|LARGE|Large|large|small|footnotesize|tiny|normalsize)(?![a-zA-Z])|\\(?:tag|label)\*?\{[^{}]*\}"
)
_FONT = re.compile(r"\\(mathbf|boldsymbol|bm|mathrm|mathit|mathsf|underline|ensuremath|textbf|text)\s*\{|\{()")
_INFIX = re.compile(r"\\(?:choose|over|atop|brace|brack)(?![a-zA-Z])")  # they take the braces around them
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_DELIMITER = re.compile(r"(?<!\\)\$|\\[()](?![a-zA-Z(])")
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"))
_SPACE_THAT_MATTERS = re.compile(r"(?<=[0-9A-Za-z])\s+(?=[0-9A-Za-z])")


def normalise(text: str) -> str:
    """
    Return `text` in one spelling. The value is kept; styling, invisible characters and Unicode variants are not.

    Args:
        text (`str`):
            An answer as it was written.

    Returns:
        `str`: The same answer, without surrounding delimiters, with single spaces.
    """
    if _SIMPLEST.match(text):
        return text
    text = " ".join(_from_unicode(text).split())
    text = _without_style(_unwrap(text)).replace(
        "\\\\", _ROW_BREAK
    )  # so that no rule takes half of it for an escaped space
    if len(_DELIMITER.findall(text)) % 2 == 0:
        text = _DELIMITER.sub(" ", text)
    for pattern, replacement in _SAME if "\\" in text else _SAME_WITHOUT_COMMANDS:
        text = pattern.sub(replacement, text)
    return _unwrap(" ".join(text.replace(_ROW_BREAK, r" \\ ").split()))


def _without_style(text: str) -> str:
    """Take what only changes the look of a whole answer from around it: fonts, sizes, braces, tags."""
    if "\\" not in text:
        return text
    text = _unwrap(_LOOK.sub(" ", text))
    while True:
        opened = _FONT.match(text)
        if not opened or _closing(text, opened.end()) != len(text) - 1:
            return text
        inside = text[opened.end() : -1]
        words = opened.group(1) in ("text", "textbf") and not (inside.startswith("$") and inside.endswith("$"))
        if not opened.group(1) and _INFIX.search(inside):
            return text
        if words or not ("\\" in inside or "(" in inside or "$" in inside):
            return text  # words, a unit or a name, which a font may tell apart
        text = _unwrap(inside)


def _closing(text: str, start: int) -> int:
    """Where the brace that was opened before `start` is closed; -1 if it is not."""
    depth = 1
    for token in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return token.start()
    return -1


def with_decimal_point(text: str) -> str:
    """Rewrite numbers with a decimal comma, and full stops between thousands, as LaTeX has them: 1.234,5 as 1234.5."""
    text = _THOUSANDS_STOP.sub(lambda match: match.group().replace(".", ""), text)
    return _DECIMAL_COMMA.sub(".", text)


def spelling(text: str) -> str:
    """Return a normalised answer without the spaces that carry no meaning ("1 1/2" keeps its own)."""
    text = _SPACE_THAT_MATTERS.sub("\u2423", text)
    text = text.replace(" ", "").replace("\u2423", " ")
    return re.sub(r"([\^_])\{(\w)\}", r"\1\2", text)


def _from_unicode(text: str) -> str:
    if text.isascii():
        return "".join(character if character.isprintable() else " " for character in text)
    text = _RAISED.sub(lambda match: "^{" + match.group().translate(_SUPERSCRIPTS) + "}", text)
    text = _LOWERED.sub(lambda match: "_{" + match.group().translate(_SUBSCRIPTS) + "}", text)
    text = _HIGHER_ROOT.sub(lambda match: rf"\sqrt[{'∛∜'.index(match.group(1)) + 3}]{{{match.group(2)}}}", text)
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match.group(1)}}}" if match.group(1) else r"\sqrt", text)
    text = re.sub(r"\\sqrt\(([^()]{1,200})\)", r"\\sqrt{\1}", text)
    text = re.sub(r"(?<=\d)[⁄∕](?=\d)", "/", text).translate(_UNICODE)
    return "".join(_plain(character) for character in text)


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "C":  # control, format, surrogate, private use, unassigned: nothing a reader sees
        return "" if category == "Cf" else " "
    if "\uff10" <= character <= "\uff5e":  # full-width forms
        return chr(ord(character) - 0xFEE0)
    return character


def _unwrap(text: str) -> str:
    while True:
        before = text
        text = text.strip()
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]  # an escaped space at the end
        shorter = text.rstrip(" .,;")
        if not shorter.endswith("\\") and ".." not in text[len(shorter) :]:
            text = shorter
        for start, end in _WRAPPERS:
            inner = text[len(start) : -len(end)]
            if (
                len(text) > len(start) + len(end)
                and text.startswith(start)
                and text.endswith(end)
                and start not in inner
            ):
                text = inner
        if text == before:
            return text
