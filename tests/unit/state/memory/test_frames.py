"""Data frames come back so that writing one changes what it changed before, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.memory_trip import save, trip

pd: Any = pytest.importorskip("pandas")
np: Any = pytest.importorskip("numpy")


def where(frame: Any, column: str) -> int:
    """Return the address of a column's values."""
    return int(frame[column].to_numpy().__array_interface__["data"][0])


def frame_of(count: int = 1000) -> Any:
    """Make a frame with columns of most kinds."""
    half = count // 2
    return pd.DataFrame(
        {
            "a": np.arange(count),
            "b": np.arange(float(count)),
            "kind": pd.Categorical(["u", "v"] * half),
            "when": pd.date_range("2020", periods=count, tz="Europe/Berlin"),
            "things": [[1], None] * half,
            "maybe": pd.array([1, None] * half, dtype="Int64"),
            "rare": pd.arrays.SparseArray([0, 1] * half),
            "word": ["x", "yy"] * half,
            "span": pd.to_timedelta(np.arange(count), unit="s"),
        }
    )


def test_frames_of_every_kind_of_column_are_equal() -> None:
    frame = frame_of()
    frame.attrs["unit"] = "m"
    frame.flags.allows_duplicate_labels = False
    back = trip(frame=frame, many=frame.set_index(["a", "word"]), turned=frame[["a", "b"]].T)
    pd.testing.assert_frame_equal(back["frame"], frame)
    pd.testing.assert_frame_equal(back["many"], frame.set_index(["a", "word"]))
    pd.testing.assert_frame_equal(back["turned"], frame[["a", "b"]].T)
    assert back["frame"].attrs == {"unit": "m"}
    assert not back["frame"].flags.allows_duplicate_labels


def test_values_that_frames_share_are_saved_once() -> None:
    frame = pd.DataFrame(np.zeros((50_000, 4)), columns=list("abcd"))
    lazy = frame[:]
    saved = save(
        frame=frame, lazy=lazy, column=frame["a"], values=frame.to_numpy(), renamed=frame.rename(columns=str)
    )
    assert sum(root.nbytes for root in saved.details.roots) == 50_000 * 4 * 8


@pytest.mark.parametrize("first", ["frame", "lazy", "column", "index", "part", "values"])
def test_writes_are_seen_by_the_same_others_as_before(first: str) -> None:
    def made() -> dict[str, Any]:
        frame = frame_of()
        names = {
            "frame": frame,
            "lazy": frame[:],
            "column": frame["a"],
            "renamed": frame.rename(columns={"b": "c"}),
            "index": pd.Index(frame["b"]),
            "part": frame.iloc[10:20],
            "values": frame["b"].to_numpy(),
        }
        return {first: names[first], **names}

    def written(names: dict[str, Any]) -> list[Any]:
        names["lazy"].iloc[3, 0] = -1
        names["frame"].loc[4, "b"] = -5.0
        names["part"].iloc[0, 1] = -7
        names["column"].iloc[0] = 99
        names["frame"].loc[10, "word"] = "zzz"
        return [
            *(names[name].iloc[3, 0] for name in ("frame", "lazy", "renamed")),
            *(names[name].iloc[4, 1] for name in ("frame", "lazy", "renamed")),
            *(names["values"][4], names["index"][4], names["column"].iloc[3]),
            *(names["frame"].iloc[10, 1], names["part"].iloc[0, 1]),
            *(names["frame"].iloc[0, 0], names["column"].iloc[0]),
            *(names[name].iloc[10, 7] for name in ("frame", "lazy")),
        ]

    assert written(trip(**made())) == written(made())


def test_a_frame_by_itself_is_written_in_place() -> None:
    back = trip(frame=pd.DataFrame({"a": np.arange(1000), "b": np.arange(1000)}))["frame"]
    before = where(back, "b")
    back.iloc[5, 1] = -1
    assert where(back, "b") == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.RangeIndex(5, name="r"),
        lambda: pd.date_range("2020", periods=3, freq="D", tz="UTC"),
        lambda: pd.timedelta_range("1D", periods=3, freq="D"),
        lambda: pd.period_range("2020", periods=3, freq="M"),
        lambda: pd.interval_range(0, 3),
        lambda: pd.CategoricalIndex(["a", "b"], name="c"),
        lambda: pd.MultiIndex.from_product([[1, 2], ["a"]], names=["x", None]),
        lambda: pd.Index(["a", "b"], name=("q", 1)),
        lambda: pd.Index([1, "a", None]),
    ],
)
def test_every_kind_of_index_comes_back(make: Any) -> None:
    index = make()
    back = trip(index=index)["index"]
    pd.testing.assert_index_equal(back, index)
    assert type(back) is type(index)
    assert getattr(back, "freq", None) == getattr(index, "freq", None)
    assert back.get_loc(back[1]) == 1


def test_groups_windows_and_pieces_of_frames_work_on() -> None:
    frame = frame_of(20)
    group, window = frame.groupby("word"), frame[["a", "b"]].rolling(3)
    back = trip(frame=frame, group=group, window=window, place=frame.iloc, one=frame.iloc[3])
    pd.testing.assert_frame_equal(back["group"][["a", "b"]].sum(), group[["a", "b"]].sum())
    pd.testing.assert_frame_equal(back["window"].mean(), window.mean())
    pd.testing.assert_series_equal(back["one"], frame.iloc[3])
    assert back["group"].obj is back["frame"]


def test_frames_and_torch_share_memory() -> None:
    torch: Any = pytest.importorskip("torch")
    frame = pd.DataFrame(np.zeros((1000, 2)), columns=["a", "b"], copy=False)
    base = frame._mgr.blocks[0].values.base
    if base is None or not base.flags.writeable:
        pytest.skip("this pandas copies what it is given")
    tensor = torch.from_numpy(base)
    back = trip(frame=frame, tensor=tensor)
    back["tensor"][1, 0] = 7
    assert back["frame"].iloc[1, 0] == 7


def test_tables_of_arrow_and_pieces_of_them_share_their_buffers() -> None:
    pa: Any = pytest.importorskip("pyarrow")
    table = pa.table({"x": np.arange(10_000), "s": ["a", "bb"] * 5000, "n": [None, [1]] * 5000})
    piece = table.slice(100, 50)
    lent = table.column("x").chunk(0).to_numpy()
    words = pa.chunked_array([["a", "b"], ["c", None]])
    saved = save(table=table, piece=piece, lent=lent, words=words, coded=words.dictionary_encode())
    back = saved.back()
    assert back["table"].equals(table)
    assert back["piece"].equals(piece)
    assert back["words"].num_chunks == 2
    assert back["coded"].equals(words.dictionary_encode())
    first = back["table"].column("x").chunk(0).buffers()[1].address
    assert back["lent"].__array_interface__["data"][0] == first
    assert back["piece"].column("x").chunk(0).buffers()[1].address - first in (0, 100 * 8)


def test_strings_of_arrow_are_not_copied_to_be_saved() -> None:
    pa: Any = pytest.importorskip("pyarrow")
    series = pd.Series(pa.chunked_array([["a", "b"], ["c"]]), dtype=pd.ArrowDtype(pa.string()))
    back = trip(series=series)["series"]
    pd.testing.assert_series_equal(back, series)
    assert back.array._pa_array.num_chunks == 2
