"""Records behave as the frozen dataclasses they stand for."""

import copy
import dataclasses
import pickle
from dataclasses import field

import pytest

from alula.run.record import node, record


@record
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclasses.dataclass(frozen=True, slots=True)
class Plain:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)


@node
class Tree:
    name: str
    parts: list["Tree"] = field(default_factory=list)


def test_a_record_is_made_like_a_dataclass() -> None:
    assert (Point(1).x, Point(1).y, Point(1, y=5).total, Point(y=3, x=1).total) == (1, 2, 6, 4)
    assert Point(1).tags is not Point(1).tags
    assert repr(Point(1)) == repr(Plain(1)).replace("Plain", "Point")


def test_equality_and_hash_leave_out_what_does_not_compare() -> None:
    assert Point(1, 2, ["a"]) == Point(1, 2, ["b"])
    assert hash(Point(1, 2, ["a"])) == hash(Point(1, 2, ["b"]))
    assert Point(1) != Point(2)
    assert Point(1) != Plain(1)


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"z": 1}), ((1, 2, []), {"x": 1}), ((1,), {"x": 1})])
def test_wrong_arguments_are_type_errors_as_with_dataclasses(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    for cls in (Point, Plain):
        with pytest.raises(TypeError):
            cls(*args, **kwargs)  # type: ignore[arg-type]


def test_a_record_cannot_change_and_has_no_dict() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_the_tools_of_dataclasses_work() -> None:
    assert dataclasses.replace(Point(1), y=9) == Point(1, 9)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "tags": []}
    assert pickle.loads(pickle.dumps(Point(1, 3))) == copy.copy(Point(1, 3)) == copy.deepcopy(Point(1, 3))


def test_a_node_can_change_and_equals_only_itself() -> None:
    first, second = Tree("a"), Tree("a")
    first.parts.append(second)
    first.name = "b"
    assert first != Tree("b", [second])
    assert first in {first}
    assert repr(first) == "Tree(name='b', parts=[Tree(name='a', parts=[])])"
