"""Plain numbers as exact rationals: integers, decimals, fractions, mixed numbers, percentages, powers of ten."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, log10


MAX_DIGITS = 400  # beyond this a number is compared as a string of digits: arithmetic on it costs more than it tells
_MAX_EXPONENT = 400
_MAX_EVALUATED_DIGITS = 100_000
FLOAT_NOISE = Fraction(1, 10**15)  # a double keeps 15 digits
NOISY_DIGITS = 12  # shorter decimals are roundings, and a rounding is not the value

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_DECIMAL = re.compile(rf"({_UNSIGNED})\Z")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\overline\{?(\d+)\}?\Z")
_SLASH = re.compile(rf"({_UNSIGNED})\s*/\s*(-?(?:{_UNSIGNED}))\Z")
_FRAC = re.compile(rf"\\frac\{{\s*(-?(?:{_UNSIGNED}))\s*\}}\{{\s*(-?(?:{_UNSIGNED}))\s*\}}\Z")
_MIXED = re.compile(r"(\d+)\s*\\frac\{\s*(\d+)\s*\}\{\s*(\d+)\s*\}\Z|(\d+) (\d+)\s*/\s*(\d+)\Z")
_SCIENTIFIC = re.compile(
    rf"(?:({_UNSIGNED})\s*(?:\\times|\\cdot|\*|x)\s*)?10\s*\^\s*(?:\{{\s*([-+]?\d+)\s*\}}|(-?\d+))\Z"
    rf"|({_UNSIGNED})[eE]([-+]?\d+)\Z"
)
_DIGIT_GROUPS = re.compile(r"\d{1,3}(?: \d{3})+(?:\.\d+)?\Z")
_TOWER = re.compile(r"\d{1,9}(?:[)}\s]{0,40}\^[({\s]{0,40}[-+]?\d{1,9}(?!\d))+")
_HUGE_POWER = re.compile(r"(?:\^|\*\*)[({\s]{0,40}[-+]?\d{6}|\d[eE][-+]?\d{5}")
_FACTORIAL = re.compile(r"(\d{1,9})((?:[)}\s]{0,10}!){1,10})")
_BINOMIAL = re.compile(r"\\binom\{\s*(\d+)\s*\}\{\s*(\d+)\s*\}")
_LONG = re.compile(r"([-+]?)\s*(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?\Z")


@dataclass(frozen=True)
class Plain:
    """
    A number that needs no algebra.

    Args:
        value (`Fraction`):
            The value as written; a percentage keeps the number before the sign.
        percent (`bool`, *optional*, defaults to `False`):
            Whether a percent sign follows.
        step (`Fraction`, *optional*):
            One unit of the last place of a decimal with enough digits to be a float's image; `None` for exact numbers.
    """

    value: Fraction
    percent: bool = False
    step: Fraction | None = None

    def equals(self, other: "Plain", tolerance: float = 0.0, percent: str = "optional") -> bool:
        """Whether both are the same number. 50% is 0.5, and also a bare 50; 0.25% is not a bare 0.25."""
        if percent == "sign" and self.percent != other.percent:
            return False
        if _close(self._share(), other._share(), tolerance, self.step, other.step):
            return True
        bare = percent == "optional" and abs(self.value) >= 1
        return bare and _close(self.value, other.value, tolerance, self.step, other.step)

    def _share(self) -> Fraction:
        return self.value / 100 if self.percent else self.value


@lru_cache(maxsize=4096)
def parse_plain(text: str) -> Plain | None:
    """
    Read a normalised string as one plain number.

    Args:
        text (`str`):
            The result of [`normalise`], without unit.

    Returns:
        [`Plain`] or `None`: `None` when the string is anything else, or has more than `MAX_DIGITS` characters.
    """
    text = text.strip()
    if len(text) > MAX_DIGITS or not any(character in "0123456789" for character in text):
        return None
    percent = text.endswith("%")
    text = text[:-1].strip() if percent else text
    sign = 1
    while text[:1] in ("-", "+"):
        sign = -sign if text[0] == "-" else sign
        text = text[1:].strip()
    while text.startswith("{") and text.endswith("}") and text.count("{") == 1:
        text = text[1:-1].strip()
    if not text.isascii():
        return None
    number = _decimal(text) or _fraction(text) or _mixed(text) or _scientific(text)
    return None if number is None else Plain(sign * number.value, percent, number.step)


def digits_key(text: str) -> str | None:
    """Return an integer or decimal of any length as canonical digits, so that long ones compare without arithmetic."""
    match = _LONG.match(text.strip())
    if not match:
        return None
    sign, whole, decimals = match.groups()
    whole = whole.replace(",", "").lstrip("0") or "0"
    decimals = (decimals or "").rstrip("0")
    zero = whole == "0" and not decimals
    return ("-" if sign == "-" and not zero else "") + whole + ("." + decimals if decimals else "")


def is_astronomic(text: str) -> bool:
    """
    Whether a normalised string writes a number whose digits would not fit into memory or time: a power tower, a
    six-digit exponent, the factorial of a factorial.
    """
    if _HUGE_POWER.search(text):
        return True
    if any(
        _tower_digits([int(n) for n in re.findall(r"\d+", tower)]) > _MAX_EVALUATED_DIGITS
        for tower in _TOWER.findall(text)
    ):
        return True
    for argument, marks in _FACTORIAL.findall(text):
        nested = marks.count("!") if ")" in marks else 1
        if int(argument) > (20_000, 7, 3)[min(nested, 3) - 1]:
            return True
    return any(
        min(int(k), int(n) - int(k)) > 20_000 for n, k in _BINOMIAL.findall(text) if len(n) < 20 and len(k) < 20
    )


def _tower_digits(numbers: list[int]) -> float:
    exponent = 1.0
    for base in reversed(numbers[1:]):
        if base < 2:
            exponent = float(base)
        elif exponent * log10(base) > 9:
            return inf
        else:
            exponent = float(base) ** exponent
    return exponent * log10(max(numbers[0], 1))


def _decimal(text: str) -> Plain | None:
    if _DIGIT_GROUPS.match(text):
        text = text.replace(" ", "")
    repeating = _REPEATING.match(text)
    if repeating:
        whole, lead, period = repeating.groups()
        nines = (10 ** len(period) - 1) * 10 ** len(lead)
        return Plain(Fraction(int((whole or "0") + lead)) / 10 ** len(lead) + Fraction(int(period), nines))
    if not _DECIMAL.match(text):
        return None
    digits = text.replace(",", "")
    places = len(digits.partition(".")[2])
    significant = len(digits.replace(".", "").lstrip("0"))
    step = Fraction(1, 10**places) if places and significant >= NOISY_DIGITS else None
    return Plain(Fraction(digits.rstrip(".") or "0"), step=step)


def _fraction(text: str) -> Plain | None:
    match = _FRAC.match(text) or _SLASH.match(text)
    if not match:
        return None
    above, below = (Fraction(part.replace(",", "").rstrip(".")) for part in match.groups())
    return Plain(above / below) if below else None


def _mixed(text: str) -> Plain | None:
    match = _MIXED.match(text)
    if not match:
        return None
    whole, above, below = (int(part) for part in match.groups() if part is not None)
    return Plain(whole + Fraction(above, below)) if below else None


def _scientific(text: str) -> Plain | None:
    match = _SCIENTIFIC.match(text)
    if not match:
        return None
    factor, braced, bare, e_factor, e_power = match.groups()
    power = braced or bare or e_power
    if len(power) > 5 or abs(int(power)) > _MAX_EXPONENT:
        return None
    return Plain(Fraction((factor or e_factor or "1").replace(",", "").rstrip(".")) * Fraction(10) ** int(power))


def _close(a: Fraction, b: Fraction, tolerance: float, *steps: Fraction | None) -> bool:
    if a == b:
        return True
    gap = abs(a - b)
    if tolerance and gap <= Fraction(tolerance) * max(abs(a), abs(b)):
        return True
    noise = [step for step in steps if step is not None]
    return bool(noise) and gap < max([*noise, FLOAT_NOISE * abs(b)])
