"""Arrays of numpy come back with what they share, and with who owns it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memory_trip import save, trip

np = pytest.importorskip("numpy")


def test_views_look_at_the_array_that_owns_the_memory() -> None:
    a = np.arange(1000.0)
    back = trip(a=a, some=a[2:5], every=a[::-2], turned=a.reshape(20, 50).T)
    assert back["a"].flags.owndata
    assert all(back[name].base is back["a"] for name in ("some", "every", "turned"))
    back["a"][2] = 99
    assert back["some"][0] == 99
    assert np.array_equal(back["turned"], back["a"].reshape(20, 50).T)
    assert np.array_equal(back["every"], back["a"][::-2])


def test_memory_is_saved_once_whoever_looks_at_it() -> None:
    a = np.zeros(100_000)
    saved = save(a=a, b=a[5:], c=[a.reshape(10, -1)], d=a[:7].view("u4"))
    assert [root.nbytes for root in saved.details.roots] == [a.nbytes]


def test_a_view_keeps_its_owner_though_no_name_is_bound_to_that() -> None:
    view = np.arange(5000)[10:20]
    back = trip(view=view, other=view.base[15:])
    back["other"][0] = -1
    assert back["view"][5] == -1


@pytest.mark.parametrize("size", [3, 6000])
@pytest.mark.parametrize(
    "make",
    [
        lambda size: np.asfortranarray(np.arange(size * 2.0).reshape(2, size)),
        lambda size: np.empty_like(np.zeros((3, size, 2)).transpose(1, 0, 2)),
        lambda size: np.arange(size).astype(">i4"),
        lambda size: np.full(size, np.datetime64("2020-01-02", "ns")),
        lambda size: np.array(["é" * 5] * size),
        lambda size: np.array([b"xy"] * size),
        lambda size: np.zeros(size, [("a", "i2"), ("b", "f8", (2,))]),
        lambda size: np.ones(size, np.complex128) * 1j,
        lambda size: np.zeros((0, size)),
        lambda size: np.broadcast_to(np.arange(size), (4, size)),
        lambda size: np.lib.stride_tricks.sliding_window_view(np.arange(size), 2),
        lambda size: np.array(size),
    ],
)
def test_every_kind_of_plain_array_comes_back_as_it_was(make: Any, size: int) -> None:
    array = make(size)
    back = trip(array=array)["array"]
    assert back.dtype == array.dtype
    assert (back.shape, back.strides) == (array.shape, array.strides)
    assert (back.flags.writeable, back.flags.owndata) == (array.flags.writeable, array.flags.owndata)
    assert back.tobytes() == array.tobytes()


def test_writing_stays_forbidden_where_it_was_and_only_there() -> None:
    owner = np.arange(5)
    view, frozen = owner[1:], owner[:2]
    owner.setflags(write=False)
    frozen.setflags(write=False)
    back = trip(owner=owner, view=view, frozen=frozen)
    back["view"][0] = 9
    assert back["owner"].tolist() == [0, 9, 2, 3, 4]
    assert not back["owner"].flags.writeable
    assert not back["frozen"].flags.writeable


def test_objects_in_arrays_stay_the_same_objects() -> None:
    inner = [1, 2]
    a = np.array([inner, None, "x", (1, 2)], dtype=object)
    a[1] = a
    square = a.reshape(2, 2).T
    back = trip(a=a, inner=inner, part=a[1:3], square=square, back=a[::-1])
    assert back["a"][0] is back["inner"]
    assert back["a"][1] is back["a"]
    back["a"][2] = 5
    assert back["part"][1] == back["square"][0, 1] == back["back"][1] == 5
    assert back["part"].base is back["a"]


def test_fields_of_structures_look_at_them_with_objects_or_without() -> None:
    table = np.zeros(3, dtype=[("a", "f8"), ("o", object)])
    table["o"][1] = [1]
    back = trip(table=table, a=table["a"][1:], o=table["o"])
    back["o"][2] = "new"
    back["table"]["a"][1] = 5
    assert back["table"][2]["o"] == "new"
    assert back["a"][0] == 5
    assert back["table"]["o"][1] == [1]


def test_a_row_of_a_structure_looks_at_its_table() -> None:
    table = np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
    back = trip(table=table, row=table[1])
    back["row"]["a"] = 7
    assert back["table"]["a"].tolist() == [0, 7, 0]


def test_strings_of_any_length_come_back() -> None:
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this numpy has no StringDType")
    words = np.array(["a", "b" * 100, None], dtype=np.dtypes.StringDType(na_object=None))
    back = trip(words=words, last=words[1:])
    assert back["words"].tolist() == words.tolist()
    assert back["words"].dtype == words.dtype
    back["words"][1] = "c"
    assert back["last"][0] == "c"


def test_masked_arrays_share_their_data_and_mask() -> None:
    masked = np.ma.array(np.arange(500), mask=np.arange(500) % 2 == 0, fill_value=-1)
    back = trip(masked=masked, part=masked[100:], mask=masked.mask)
    assert np.ma.allequal(back["masked"], masked)
    assert back["masked"].fill_value == -1
    back["masked"].data[101] = 7
    assert back["part"].data[1] == 7
    assert np.shares_memory(back["masked"]._mask, back["mask"])
    assert np.ma.array([1, 2]).mask is trip(plain=np.ma.array([1, 2]))["plain"].mask


class Tagged(np.ndarray):  # type: ignore[misc]
    """An array with an attribute."""

    def __array_finalize__(self, source: Any) -> None:
        """Take the attribute over."""
        self.tag = getattr(source, "tag", None)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_derived_classes_keep_their_attributes_and_memory() -> None:
    tagged = np.arange(4.0).view(Tagged)
    tagged.tag = ["unit"]
    record = np.rec.array([(1, 2.0)], dtype=[("a", int), ("b", float)])
    matrix = np.asmatrix([[1, 2], [3, 4]])
    back = trip(tagged=tagged, base=tagged.base, record=record, matrix=matrix, row=matrix[1])
    assert type(back["tagged"]) is Tagged
    assert back["tagged"].tag == ["unit"]
    back["base"][0] = 8
    assert back["tagged"][0] == 8
    assert back["record"].b[0] == 2.0
    back["matrix"][1, 0] = 9
    assert back["row"].tolist() == [[9, 4]]


def test_memory_of_nobody_in_the_namespace_is_shared_by_address() -> None:
    class Interface:
        """Offers memory that it does not show."""

        def __init__(self, array: Any, count: int) -> None:
            self.keep = array
            self.__array_interface__ = {**array.__array_interface__, "shape": (count,), "strides": None}

    hidden = np.arange(4000)
    first, second = np.asarray(Interface(hidden, 3000)), np.asarray(Interface(hidden[1000:], 3000))
    del hidden
    saved = save(first=first, second=second)
    assert [root.nbytes for root in saved.details.roots] == [4000 * 8]
    back = saved.back()
    back["first"][1500] = -1
    assert back["second"][500] == -1
    assert back["second"][-1] == 3999


def test_a_changed_array_differs_by_one_chunk() -> None:
    array = np.zeros(3_000_000)
    before = save(array=array)
    array[2_000_000] = 1
    after = save(array=array)
    new = set(after.details.roots[0].chunks) - set(before.details.roots[0].chunks)
    assert len(after.details.roots[0].chunks) == 6
    assert len(new) == 1
