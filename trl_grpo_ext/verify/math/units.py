"""Units and currencies after (or before) a value: optional, but never exchangeable."""

import re
from functools import lru_cache


_ALIASES = {
    "cm": "cm centimeter centimetre",
    "m": "m meter metre",
    "km": "km kilometer kilometre",
    "mm": "mm millimeter millimetre",
    "in": "in inch inche",
    "ft": "ft foot feet",
    "yd": "yd yard",
    "mi": "mi mile",
    "s": "s sec second",
    "min": "min minute",
    "h": "h hr hour",
    "day": "day",
    "week": "week",
    "month": "month",
    "year": "year yr",
    "g": "g gram",
    "kg": "kg kilogram",
    "lb": "lb pound",
    "oz": "oz ounce",
    "l": "l liter litre",
    "ml": "ml milliliter millilitre",
    "mph": "mph mi/h mile/h mile/hour mileperhour",
    "km/h": "km/h kmh kph kilometer/hour kilometerperhour",
    "m/s": "m/s meter/second meterpersecond",
    "degree": "degree deg ^\\circ",
    "radian": "radian rad",
    "dollar": "dollar usd $ buck",
    "cent": "cent ¢",
    "euro": "euro eur €",
    "yuan": "yuan rmb ¥",
    "gbp": "gbp £",
    "unit": "unit",
}
_CANONICAL = {alias: unit for unit, aliases in _ALIASES.items() for alias in aliases.split()}
_NOT_UNITS = re.compile(
    r"\b(?:and|or|to|is|not|by|over|plus|minus|times|pi|if|for|mod|sqrt|sin|cos|tan|log|ln|none)\b", re.IGNORECASE
)
_CHANGES_VALUE = re.compile(
    r"(?:or |and )?(?:more|less|fewer|greater|larger|smaller|higher|lower|above|below|under|up)\b"
    r"|(?:at )?(?:least|most)\b|(?:hundred|thousand|million|billion|trillion|dozen)s?\b|(?:squared|cubed|factorial)\b"
    r"|(?:half|halves|thirds|fourths|fifths|sixths|eighths|tenths|hundredths|thousandths)\b|(?:plus|minus)\Z",
    re.IGNORECASE,
)
_BOUND = "~"  # marks a phrase that is part of the value: "5 or more" is not 5
_POWER = r"(?:\s*\^\s*\{?\s*-?\d\s*\}?)?"
_TEXT_UNIT = re.compile(rf"\\text\s*\{{(?P<unit>[^{{}}\d]*(?:\^?\d)?)\}}{_POWER}\Z")
_WORD_UNIT = re.compile(rf"(?<=[\d\s}})])\s*(?P<unit>[A-Za-z¢€£¥]+(?:[ /][A-Za-z]+){{0,3}}){_POWER}\Z")
_DEGREE = re.compile(r"(?P<unit>\^\s*\\circ)\s*(?:C|F)?\Z")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_AFTER_NUMBER = re.compile(r"(?<![\^_\w.,])[\d.,]*\d\s*\Z")  # not after an exponent: c^2 m is a product
_CURRENCY_BEFORE = re.compile(r"(?P<sign>[-+]?)\s*(?P<unit>[$€£¥])\s*")


@lru_cache(maxsize=4096)
def split_unit(text: str) -> tuple[str, str]:
    """
    Split a normalised answer into its value and its unit.

    Args:
        text (`str`):
            A normalised answer.

    Returns:
        `tuple[str, str]`: The value, and the unit in one spelling (`""` when there is none); of "5 or more", a
        phrase that [`same_unit`] lets nobody leave out.
    """
    if "\\int" in text:
        return text, ""  # what follows the value there is the variable of integration
    before = _CURRENCY_BEFORE.match(text)
    if before:
        return (before.group("sign") + text[before.end() :]).strip(), _canonical(before.group("unit"))
    if text.endswith("$"):
        return text[:-1].strip(), "dollar"
    degree = None if _TRIGONOMETRY.search(text) else _DEGREE.search(text)
    match = degree or _TEXT_UNIT.search(text[-200:]) or _WORD_UNIT.search(text[-80:])
    if not match:
        return text, ""
    tail = match.group()
    value = text[: len(text) - len(tail)].strip()
    unit = match.group("unit").strip()
    if value and _CHANGES_VALUE.match(unit):
        return value, _BOUND + " ".join(unit.lower().split())
    if not value or _NOT_UNITS.search(unit):
        return text, ""
    spelled_out = tail.strip()[:1] in ("\\", "^")
    if not spelled_out and not _reads_as_unit(unit, "^" in tail, text[: len(text) - len(tail.lstrip())]):
        return text, ""
    return value, _canonical(re.sub(r"[{}\s]|\\text", "", tail) if "^" in tail else unit)


def _reads_as_unit(word: str, raised: bool, before: str) -> bool:
    """Whether a bare word after a value is a unit, not a product of variables: `5 apples`, `5 m`, `5cm`, not `5x`."""
    apart = before[-1:].isspace()
    if len(word) == 1:
        return word in "mgshl" and apart and (raised or _AFTER_NUMBER.search(before) is not None)
    return apart or _singular(word.lower()) in _CANONICAL


def same_unit(gold: str, answer: str, policy: str = "optional") -> bool:
    """
    Whether two units can stand for each other: the same, or one of them left out where that changes nothing.

    Args:
        gold (`str`):
            Unit of the reference, as [`split_unit`] returns it.
        answer (`str`):
            Unit of the answer.
        policy (`str`, *optional*, defaults to `"optional"`):
            The `units` of [`MathOptions`].

    Returns:
        `bool`
    """
    if gold == answer:
        return True
    if (gold + answer).startswith(_BOUND) or _BOUND in (gold[:1], answer[:1]):
        return False
    if policy == "ignored":
        return True
    return not gold or (not answer and policy == "optional")


def _canonical(unit: str) -> str:
    unit = unit.lower().strip(" .")
    unit = re.sub(r"\b(?:square|sq\.?)\s*([a-z]+)", r"\1^2", unit)
    unit = re.sub(r"\bcubic\s*([a-z]+)", r"\1^3", unit)
    unit = re.sub(r"\s*per\s*", "/", unit)
    unit = unit.replace(" ", "")
    base, caret, power = unit.partition("^")
    if unit in _CANONICAL:
        return _CANONICAL[unit]
    parts = "/".join(_CANONICAL.get(_singular(part), _singular(part)) for part in base.split("/"))
    return _CANONICAL.get(parts, parts) + caret + power


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 2 and word.endswith("s") and word not in ("gas", "plus") else word
