"""Whatever looks at shared memory: after a restore the same things overlap, at the same distances."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.memory_trip import save

np: Any = pytest.importorskip("numpy")
torch: Any = pytest.importorskip("torch")

DTYPES = ("u1", "<i2", ">i4", "<f8", "M8[s]", "<c16")
TENSOR_DTYPES = (torch.uint8, torch.int16, torch.float32, torch.float64)


@st.composite
def owners(draw: st.DrawFn) -> Any:
    """Make something that owns memory."""
    nbytes = 16 * draw(st.sampled_from([1, 3, 20, 400]))
    content = bytes((7 * n) % 256 for n in range(nbytes))
    match draw(st.sampled_from(["array", "grid", "tensor", "bytearray", "bytes"])):
        case "array":
            return np.frombuffer(content, draw(st.sampled_from(DTYPES))).copy()
        case "grid":
            return np.asfortranarray(np.frombuffer(content, "u1").reshape(4, -1))
        case "tensor":
            return torch.tensor(list(content), dtype=torch.uint8).view(draw(st.sampled_from(TENSOR_DTYPES)))
        case "bytearray":
            return bytearray(content)
    return content


def cut(draw: st.DrawFn, value: Any) -> Any:
    """Look at a part of an array or tensor."""
    length = len(value) if getattr(value, "ndim", 1) else 0
    if not length:
        return value[...]
    start = draw(st.integers(0, length - 1))
    stop = draw(st.integers(start, length))
    step = draw(st.sampled_from([1, 2, 3]))
    return value[start:stop:step]


def array_of(value: Any) -> Any:
    """Look at something with numpy."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return value if isinstance(value, np.ndarray) else np.frombuffer(value, np.uint8)


@st.composite
def looks(draw: st.DrawFn, value: Any) -> Any:
    """Make something that looks at the memory of something else."""
    if isinstance(value, memoryview | bytes | bytearray):
        value = draw(st.sampled_from([memoryview, array_of]))(value)
        return value[draw(st.integers(0, 7)) :]
    how = draw(st.sampled_from(["cut", "turn", "back", "bytes", "other", "frozen", "wide", "window"]))
    if isinstance(value, torch.Tensor):
        match how:
            case "turn" | "back":
                return value.T if value.ndim == 2 else value.detach()
            case "other":
                return value.numpy()
            case "wide" | "window":
                return value.expand(2, *value.shape)
            case "bytes" if value.ndim == 1 and value.stride(0) == 1:
                return value.view(torch.uint8)
        return cut(draw, value)
    match how:
        case "turn":
            return value.T
        case "back":
            return value[::-1] if value.ndim else value[...]
        case "bytes" if value.flags.c_contiguous and value.ndim and value.size:
            return value.view("u1")
        case "other" if (
            value.dtype == np.uint8 and value.flags.writeable and min(value.strides, default=0) >= 0
        ):
            return torch.from_numpy(value)
        case "frozen":
            frozen = value.view()
            frozen.setflags(write=False)
            return frozen
        case "wide":
            return np.broadcast_to(value, (2, *value.shape))
        case "window" if value.ndim == 1 and len(value) > 3:
            return np.lib.stride_tricks.sliding_window_view(value, 3)
    return cut(draw, value)


@st.composite
def namespaces(draw: st.DrawFn) -> dict[str, Any]:
    """Make owners and looks at them and at each other, some of them without a name, in any order."""
    values = [draw(owners()) for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, 8))):
        values.append(draw(looks(values[draw(st.integers(0, len(values) - 1))])))
    chosen = draw(st.permutations(range(len(values))))
    return {f"v{n}": values[n] for n in chosen[: draw(st.integers(1, len(chosen)))]}


def address(value: Any) -> int:
    """Return where the first element is."""
    if isinstance(value, torch.Tensor):
        return int(value.data_ptr())
    if isinstance(value, memoryview | bytes | bytearray):
        value = np.frombuffer(value, np.uint8)
    return int(value.__array_interface__["data"][0])


def described(value: Any) -> tuple[Any, ...]:
    """Say all that there is to say of something but for where it is."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        return value.dtype, value.shape, value.stride(), value.storage_offset(), storage.nbytes()
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype, value.shape, value.strides, flags.writeable, flags.owndata, flags.f_contiguous
    if isinstance(value, memoryview):
        return value.format, value.shape, value.strides, value.readonly
    return type(value), len(value)


def contents(value: Any) -> bytes:
    """Return the bytes that something shows."""
    if isinstance(value, torch.Tensor):
        return bytes(value.contiguous().numpy().tobytes())
    return bytes(value.tobytes() if hasattr(value, "tobytes") else value)


def writable(value: Any) -> bool:
    """Tell whether something can be written through."""
    if isinstance(value, np.ndarray):
        return bool(value.flags.writeable and value.size)
    if isinstance(value, torch.Tensor):
        return bool(value.numel()) and 0 not in value.stride()
    return isinstance(value, bytearray) or (
        isinstance(value, memoryview) and not value.readonly and len(value) > 0
    )


def write(value: Any, number: int) -> None:
    """Write one element."""
    if isinstance(value, torch.Tensor):
        value[np.unravel_index(number % value.numel(), tuple(value.shape))] = 1
    elif isinstance(value, np.ndarray):
        value.flat[number % value.size] = np.zeros((), value.dtype)
    else:
        value[number % len(value)] = number % 256


@settings(max_examples=60, deadline=None)
@given(namespaces(), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 999)), max_size=6))
def test_the_same_things_overlap_and_see_each_others_writes(
    names: dict[str, Any], writes: list[tuple[int, int]]
) -> None:
    saved = save(**names)
    back = saved.back()
    assert not saved.lost
    order = list(names)
    for name in order:
        assert type(back[name]) is type(names[name])
        assert described(back[name]) == described(names[name])
    for one in order:
        for other in order:
            a, b, x, y = names[one], names[other], back[one], back[other]
            if overlap(a, b):
                assert address(x) - address(y) == address(a) - address(b)
                assert (x is y) == (a is b)
            assert overlap(x, y) == overlap(a, b)
    assert {name: contents(back[name]) for name in order} == {name: contents(names[name]) for name in order}
    for which, number in writes:
        name = order[which % len(order)]
        if writable(names[name]):
            write(names[name], number)
            write(back[name], number)
            assert {n: contents(back[n]) for n in order} == {n: contents(names[n]) for n in order}


def overlap(one: Any, other: Any) -> bool:
    """Tell whether two things may look at the same bytes."""
    return bool(np.may_share_memory(array_of(one), array_of(other)))
