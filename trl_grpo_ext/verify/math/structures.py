"""Rungs for answers with parts: inequalities, sets, lists, tuples, families, and named values."""

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from trl_grpo_ext.verify.math.decision import Decision
from trl_grpo_ext.verify.math.evaluate import coefficients, compare_constants, constant, factor_between
from trl_grpo_ext.verify.math.exact import parse_plain
from trl_grpo_ext.verify.math.expression import parse
from trl_grpo_ext.verify.math.families import family, same_family
from trl_grpo_ext.verify.math.intervals import real_set, same_set
from trl_grpo_ext.verify.math.normalise import spelling
from trl_grpo_ext.verify.math.reading import is_text, words_of
from trl_grpo_ext.verify.math.shapes import (
    EQUALS,
    INFINITY,
    NAME,
    RELATION,
    Shape,
    read_shape,
    relation_sides,
    solution_set,
    split,
    strip_set_builder,
    swapped_names,
    turn_round,
    turned,
    without_names,
)
from trl_grpo_ext.verify.math.units import split_unit


if TYPE_CHECKING:
    from trl_grpo_ext.verify.math.compare import Ladder


MAX_PAIRWISE = 30  # longer lists are compared by spelling: matching n elements costs n² comparisons

_UNDECIDED = Decision(None, "only algebra can tell")
_SETS = re.compile(
    r"\breals?\b|\\(?:cup|cap|setminus|backslash|mathbb|in)(?![a-zA-Z])|[<>]|\\(?:le|ge|ne)(?![a-zA-Z])"
)
_FUNCTION = re.compile(r"([A-Za-z](?:_\{?\w+\}?)?)\s*\(\s*([a-z])\s*\)\Z")
_EMPTY = "\\emptyset"
_COMMA = re.compile(",")


def families(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Congruences and parametric families are the sets of their members."""
    gold_family, answer_family = family(strip_set_builder(gold)), family(strip_set_builder(answer))
    if gold_family is None or answer_family is None:
        single = name_and_value(answer if gold_family else gold)[1]
        return (
            Decision(False, "a family against one value")
            if gold_family != answer_family and _is_value(single)
            else None
        )
    if gold_family[0] and answer_family[0] and gold_family[0] != answer_family[0]:
        return Decision(False, "another variable")
    same = same_family(gold_family[1], answer_family[1])
    if same is None:
        return None
    return Decision(same, "the same members" if same else "other members")


def relations(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """An inequality in one variable is the set of numbers it describes; in several, it is one up to a factor."""
    if not (_SETS.search(gold) or _SETS.search(answer)):
        return None
    by_ends = _real_sets(gold, answer)
    if by_ends is not None:
        return by_ends
    if not (RELATION.search(gold) or RELATION.search(answer)):
        return None
    for text, other in ((gold, answer), (answer, gold)):
        if RELATION.search(text) and not _SETS.search(other) and _is_value(name_and_value(other)[1]):
            return Decision(False, "an inequality against a value")
    scaled = _scaled(gold, answer)
    if scaled is not None:
        return scaled
    gold_set, answer_set = solution_set(gold), solution_set(answer)
    if gold_set is None or answer_set is None:
        return None
    if gold_set[0] and answer_set[0] and gold_set[0] != answer_set[0]:
        answer_set = solution_set(turn_round(answer)) or answer_set  # a < b is also b > a
    (gold_name, gold_shape), (answer_name, answer_shape) = gold_set, answer_set
    if gold_name and answer_name and gold_name != answer_name:
        if re.search("[a-z]", _bounds(gold_shape), re.IGNORECASE):
            return None
        return Decision(False, f"about {answer_name} instead of {gold_name}")
    return _same_shape(gold_shape, answer_shape, ladder)


def _is_value(text: str) -> bool:
    return parse(split_unit(text)[0]) is not None


def _real_sets(gold: str, answer: str) -> Decision | None:
    gold_set, answer_set = real_set(gold), real_set(answer)
    if gold_set is None or answer_set is None:
        return None
    if gold_set[0] and answer_set[0] and gold_set[0] != answer_set[0]:
        return Decision(False, f"about {answer_set[0]} instead of {gold_set[0]}")
    same = same_set(gold_set[1], answer_set[1])
    return None if same is None else Decision(same, "the same set of numbers" if same else "another set of numbers")


def _scaled(gold: str, answer: str) -> Decision | None:
    gold_sides, answer_sides = relation_sides(gold), relation_sides(answer)
    if gold_sides is None or answer_sides is None:
        return None
    (left, sign, right), (answer_left, answer_sign, answer_right) = gold_sides, answer_sides
    same, direction = factor_between((left, right), (answer_left, answer_right))
    if same is None:
        return None
    if not same:
        return Decision(False, "another inequality")
    agrees = sign == (answer_sign if direction > 0 else turned(answer_sign))
    return Decision(agrees, "the same inequality up to a factor" if agrees else "another sign between the sides")


def _bounds(shape: Shape) -> str:
    return " ".join(bound for piece in shape.parts for bound in piece.parts if not bound.endswith("\\infty"))


def structures(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Lists without order, tuples and intervals with order and brackets, unions of intervals."""
    if swapped_names(gold) != swapped_names(answer):
        return Decision(False, "the coordinates in another order")
    gold, answer = without_names(gold, answer)
    gold_shape, answer_shape = read_shape(strip_set_builder(gold)), read_shape(strip_set_builder(answer))
    if gold_shape is None and answer_shape is None:
        return None
    if goes_on(gold) != goes_on(answer) and goes_on(gold) is not None is not goes_on(answer):
        return Decision(False, "a list that goes on against one that ends")
    if gold_shape is None or answer_shape is None:
        return _with_single(gold, answer, gold_shape, answer_shape, ladder)
    gold_shape, answer_shape = _rows(gold_shape, answer_shape), _rows(answer_shape, gold_shape)
    gold_shape, answer_shape = _points(gold_shape, answer_shape), _points(answer_shape, gold_shape)
    if gold_shape.kind != answer_shape.kind:
        for shape, flipped in ((gold_shape, False), (answer_shape, True)):
            if shape.kind == "list" and len(shape.parts) == 1 and shape.parts[0] != _EMPTY:
                part = shape.parts[0]
                return ladder.climb(gold, part) if flipped else ladder.climb(part, answer)
        if "list" in (gold_shape.kind, answer_shape.kind):
            return Decision(False, f"a {answer_shape.kind} instead of a {gold_shape.kind}")
        return None
    return _same_shape(gold_shape, answer_shape, ladder)


def _same_vector(written: tuple, named: list) -> Decision | None:
    """A vector by its entries against one by its unit vectors."""
    entries = [constant(part) for part in written]
    if None in entries or not 2 <= len(entries) <= 3:
        return None
    entries += [Fraction(0)] * (3 - len(entries))
    same = all(compare_constants(a, b) == 0 for a, b in zip(entries, named, strict=True))
    return Decision(same, "the same vector" if same else "another vector")


def _components(shape: Shape) -> tuple | None:
    """The entries of a vector, as a tuple or a column."""
    if shape.kind == "tuple" and shape.brackets == "()":
        return shape.parts
    column = shape.kind == "matrix" and all(len(row.parts) == 1 for row in shape.parts)
    return tuple(row.parts[0] for row in shape.parts) if column else None


def goes_on(text: str) -> bool | None:
    """Whether a list has an ellipsis; `None` for one with parts that cannot be read."""
    inside = text.removeprefix("\\{").removesuffix("\\}")
    parts = [part for part in split(inside.replace("\\ldots", ","), _COMMA) if part]
    return "\\ldots" in text if all(_is_value(part) for part in parts) else None


def _with_single(gold: str, answer: str, gold_shape: Shape | None, answer_shape: Shape | None, ladder: "Ladder"):
    """One side has parts and the other has none."""
    shape, other = (gold_shape, answer) if gold_shape else (cast(Shape, answer_shape), gold)
    if shape.kind == "list":
        if len(shape.parts) == 1:
            part = shape.parts[0]
            if part == _EMPTY:
                return Decision(False, "the set of the empty set is not empty")
            return ladder.climb(part, answer) if gold_shape else ladder.climb(gold, part)
        if gold_shape and not ladder.options.strict_parts:
            return _some(shape.parts, (other,), ladder)
        other = name_and_value(other)[1]
    written = _components(shape)
    named = coefficients(other) if written else None
    if written and named:
        return _same_vector(written, named)
    if (
        INFINITY.match(other)
        or is_text(other)
        or parse_plain(split_unit(other)[0])
        or words_of(other) is not None
        or parse(split_unit(other)[0]) is not None
    ):
        if shape.kind == "matrix":
            return None if re.search(r"\\begin", other) else Decision(False, "a value instead of a matrix")
        return Decision(False, f"a {shape.kind} of {len(shape.parts)} against one value")
    return ladder.values(gold, answer) if shape.kind == "list" else None


def _rows(shape: Shape, other: Shape) -> Shape:
    """`[[1, 2], [3, 4]]` stands for a matrix when it is compared with one."""
    if shape.kind != "tuple" or shape.brackets != "[]" or other.kind != "matrix":
        return shape
    rows = [read_shape(part) for part in shape.parts]
    if any(row is None or row.kind != "tuple" for row in rows):
        return shape
    return Shape("matrix", tuple(Shape("tuple", row.parts) for row in rows if row))


def _points(shape: Shape, other: Shape) -> Shape:
    """
    `x = 1, y = 2` stands for the point (1, 2) when it is compared with a tuple, and several of them, separated by
    semicolons, for several points.
    """
    if shape.kind != "list":
        return shape
    if other.kind == "tuple":
        return _point(shape.parts, other.brackets) or shape
    if other.kind != "list":
        return shape
    inner = [read_shape(part) for part in other.parts]
    size = {len(part.parts) for part in inner if part is not None and part.kind == "tuple"}
    if len(size) != 1 or None in inner:
        return shape
    (width,) = size
    groups = [shape.parts[at : at + width] for at in range(0, len(shape.parts), width)]
    points = [_point(group, "()") for group in groups if len(group) == width]
    names = {tuple(name_and_value(part)[0] for part in group) for group in groups}
    if len(points) != len(groups) or None in points or len(names) != 1:
        return shape
    return Shape("list", tuple(_written(point) for point in points if point))


def _point(parts: tuple, brackets: str) -> Shape | None:
    named = [name_and_value(part) for part in parts]
    names = [name for name, _ in named]
    if None in names or "" in names or len(set(names)) < len(names) or names != sorted(names, key=str):
        return None
    return Shape("tuple", tuple(value for _, value in named), brackets)


def _written(shape: Shape) -> str:
    return shape.brackets[0] + ", ".join(shape.parts) + shape.brackets[1]


def _same_shape(gold: Shape, answer: Shape, ladder: "Ladder") -> Decision | None:
    if gold.kind == "list":
        gold, answer = _distinct(gold), _distinct(answer)
        if ladder.options.ordered_lists and len(gold.parts) == len(answer.parts):
            return _in_order(gold.parts, answer.parts, ladder)
        if not ladder.options.strict_parts and len(answer.parts) < len(gold.parts):
            return _some(gold.parts, answer.parts, ladder)
    if len(gold.parts) != len(answer.parts):
        if gold.kind == "union":
            return None
        return Decision(False, f"{len(answer.parts)} parts instead of {len(gold.parts)}")
    if gold.kind == "matrix":
        return _in_order(gold.parts, answer.parts, ladder)
    if gold.kind == "tuple":
        if gold.brackets != answer.brackets:
            return Decision(False, f"brackets {answer.brackets} instead of {gold.brackets}")
        if ladder.options.ordered_tuples:
            return _in_order(gold.parts, answer.parts, ladder)
    if Counter(map(_element_key, gold.parts)) == Counter(map(_element_key, answer.parts)):
        return Decision(True, "the same parts")
    if len(gold.parts) > MAX_PAIRWISE:
        return Decision(False, "other parts")
    return _matched(gold.parts, answer.parts, ladder)


def _distinct(shape: Shape) -> Shape:
    return Shape(shape.kind, tuple({_element_key(part): part for part in shape.parts}.values()))


def _element_key(part):
    if isinstance(part, Shape):
        return (part.kind, part.brackets, tuple(map(_element_key, part.parts)))
    number = parse_plain(part)
    return (number.value, number.percent) if number else spelling(part)


def _some(gold: tuple, answer: tuple, ladder: "Ladder") -> Decision:
    """Whether every part of the answer is one of the reference's."""
    undecided = False
    for part in answer:
        verdicts = [_compare_parts(candidate, part, ladder) for candidate in gold[:MAX_PAIRWISE]]
        if True in verdicts:
            continue
        if None not in verdicts:
            return Decision(False, f"{part} is no part of the reference")
        undecided = True
    return _UNDECIDED if undecided else Decision(True, "some of the parts, and no wrong one")


def _matched(gold: tuple, answer: tuple, ladder: "Ladder") -> Decision:
    left = list(answer)
    undecided = False
    for part in gold:
        verdicts = []
        for index, candidate in enumerate(left):
            verdict = _compare_parts(part, candidate, ladder)
            if verdict:
                del left[index]
                break
            verdicts.append(verdict)
        else:
            if all(verdict is False for verdict in verdicts):
                return Decision(False, f"the part {_named(part)} is missing")
            undecided = True
    return _UNDECIDED if undecided else Decision(True, "the same parts")


def _named(part) -> str:
    return part if isinstance(part, str) else _written(part) if part.brackets else "of a union"


def _compare_parts(gold, answer, ladder: "Ladder") -> bool | None:
    if isinstance(gold, Shape) and isinstance(answer, Shape):
        same = _same_shape(gold, answer, ladder) if gold.kind == answer.kind else None
        return False if same is None else same.equal
    if isinstance(gold, Shape) or isinstance(answer, Shape):
        return False
    return ladder.climb(gold, answer).equal


def _in_order(gold: tuple, answer: tuple, ladder: "Ladder") -> Decision:
    undecided = False
    for index, (a, b) in enumerate(_pairs(gold, answer), 1):
        same = _compare_parts(a, b, ladder)
        if same is False:
            return Decision(False, f"part {index} differs")
        undecided = undecided or same is None
    return _UNDECIDED if undecided else Decision(True, "the same parts in the same order")


def _pairs(gold: tuple, answer: tuple) -> Iterable[tuple]:
    return zip(gold, answer, strict=True)


# Letters with a sign of multiplication are a product; without one they may be one name, as of a segment AB.
_PRODUCT_SIDE = re.compile(r"\s*[a-zA-Z]\s*(?:\\cdot|\\times|\*)\s*[a-zA-Z]\s*=")


def names(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """`x = 5` is 5, and `y = 5` is not `x = 5`; the last member of a chain of equalities is the value."""
    gold_name, gold_value = name_and_value(gold)
    answer_name, answer_value = name_and_value(answer)
    if gold_name is None and answer_name is None:
        product = [text for text in (gold, answer) if _PRODUCT_SIDE.match(text)]
        single = len(product) == 1 and len(split(gold if product[0] is answer else answer, EQUALS)) == 1
        return Decision(False, "an equation still to be solved") if single else None
    if gold_name is not None and answer_name is not None:
        if spelling(gold_name) == spelling(answer_name):
            return ladder.climb(gold_value, answer_value)
        renamed = _renamed(gold_name, answer_name, gold_value, answer_value)
        if renamed is not None:
            return ladder.climb(gold_value, renamed)
        matrices = "\\begin" in gold_value and "\\begin" in answer_value
        if matrices or (parse_plain(gold_value) and parse_plain(answer_value)):
            return Decision(False, f"{answer_name or 'something else'} instead of {gold_name or 'something else'}")
        return None
    other = answer if gold_name is not None else gold
    sides = split(other, EQUALS)
    if len(sides) > 1:
        # `A^T = …` names another matrix than `A = …` does, and the algebra would only see the entries.
        return Decision(False, "another quantity") if "\\begin" in sides[-1] else None
    return ladder.climb(gold_value, answer_value)


def _renamed(gold_name: str, answer_name: str, gold_value: str, answer_value: str) -> str | None:
    """The value of `f(t) = …` in the variable of `f(x) = …`: the name of a bound variable is free."""
    a, b = _FUNCTION.match(gold_name), _FUNCTION.match(answer_name)
    if not (a and b) or a.group(1) != b.group(1):
        return None
    words = re.findall(r"(?<![a-zA-Z\\])[a-zA-Z]+", answer_value)
    if a.group(2) in words or any(len(word) > 1 for word in words):
        return None
    return re.sub(rf"(?<![a-zA-Z\\]){b.group(2)}(?![a-zA-Z])", a.group(2), answer_value)


def name_and_value(text: str) -> tuple[str | None, str]:
    """Split `x = 5` into the name (`None` if there is none, `""` for more than a name) and the last value."""
    sides = split(text, EQUALS)
    if len(sides) < 2:
        return None, text
    name = sides[0].replace("|", "").strip()
    if NAME.match(name) or len(sides) > 2 or words_of(name):
        return name if NAME.match(name) or words_of(name) else "", sides[-1].strip()
    return None, text


STRUCTURES = (("families", families), ("inequalities", relations), ("structure", structures), ("names", names))
