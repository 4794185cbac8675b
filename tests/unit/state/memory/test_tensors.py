"""Tensors come back with the storages that they share, their gradients, and what is tied to them."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

from jupyter_gpupool.state.model import FindingKind
from tests.support.memory_trip import save, trip

torch: Any = pytest.importorskip("torch")
np: Any = pytest.importorskip("numpy")
nn: Any = torch.nn


@pytest.mark.parametrize("count", [6, 6000])
def test_tensors_look_at_one_storage_and_it_can_be_resized(count: int) -> None:
    t = torch.arange(float(count))
    back = trip(
        t=t,
        some=t[1:3],
        square=t.view(2, -1),
        bits=t.view(torch.int32),
        data=t.data,
        store=t.untyped_storage(),
    )
    back["t"][1] = 50
    assert back["some"][0] == back["square"][0, 1] == back["data"][1] == 50
    assert back["bits"][1] == torch.tensor(50.0).view(torch.int32)
    assert back["t"].untyped_storage() is back["store"]
    assert back["store"].resizable()


@pytest.mark.parametrize("count", [6, 6000])
def test_numpy_and_torch_share_memory_whoever_owns_it(count: int) -> None:
    owner, tensor = np.zeros(count), torch.zeros(count)
    lent, part = torch.from_numpy(owner), torch.from_numpy(owner[2:4])
    array, passed = tensor.numpy(), np.from_dlpack(tensor)
    # What looks stands before what owns: the order must not matter.
    back = trip(part=part, lent=lent, owner=owner, passed=passed, array=array, tensor=tensor)
    back["owner"][2] = 4
    assert back["lent"][2] == back["part"][0] == 4
    assert back["owner"].flags.owndata
    back["tensor"][1] = 5
    assert back["array"][1] == back["passed"][1] == 5


def test_torch_looks_at_a_bytearray_again() -> None:
    owner = bytearray(64)
    tensor = torch.frombuffer(owner, dtype=torch.int16)
    back = trip(tensor=tensor, owner=owner)
    back["owner"][2] = 3
    assert back["tensor"][1] == 3


@pytest.mark.slow  # the first optimizer of a process imports much of torch
def test_parameters_gradients_and_the_optimizer_stay_linked() -> None:
    model = nn.Sequential(nn.Linear(40, 40), nn.BatchNorm1d(40), nn.Linear(40, 40))
    model[2].weight = model[0].weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.randn(8, 40)).sum().backward()
    optimizer.step()
    schedule.step()
    back = trip(model=model, optimizer=optimizer, grad=model[0].weight.grad, schedule=schedule)
    weight = back["model"][0].weight
    assert type(weight) is nn.Parameter
    assert weight is back["model"][2].weight is back["optimizer"].param_groups[0]["params"][0]
    assert weight in back["optimizer"].state
    assert weight.grad is back["grad"]
    assert torch.equal(weight.grad, model[0].weight.grad)
    assert back["schedule"].optimizer is back["optimizer"]


@pytest.mark.slow  # the first optimizer of a process imports much of torch
def test_training_goes_on_bit_for_bit() -> None:
    def step(model: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        model(torch.ones(2, 64)).square().sum().backward()
        optimizer.step()
        return float(model.weight.detach().sum())

    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step(model, optimizer)
    back = trip(model=model, optimizer=optimizer)
    here = [step(model, optimizer) for _ in range(3)]
    assert [step(back["model"], back["optimizer"]) for _ in range(3)] == here


def test_a_tensor_with_a_pending_graph_keeps_its_value_and_is_said() -> None:
    weight = torch.ones(3, requires_grad=True)
    loss, part = (weight * 2).sum(), weight[1:]
    saved = save(weight=weight, loss=loss, part=part)
    back = saved.back()
    assert [kind for kind, _ in saved.notes] == [FindingKind.CHANGED] * 2
    assert back["loss"] == 6
    assert back["weight"].requires_grad
    assert not back["loss"].requires_grad
    back["weight"].data[1] = 8
    assert back["part"][0] == 8


def halved(gradient: Any) -> Any:
    """Return a half."""
    return gradient / 2


def test_hooks_and_attributes_of_tensors_stay() -> None:
    weight = torch.ones(3, requires_grad=True)
    handle = weight.register_hook(halved)
    weight.label = ["w"]
    back = trip(weight=weight, handle=handle)
    back["weight"].sum().backward()
    assert back["weight"].grad.tolist() == [0.5] * 3
    assert back["weight"].label == ["w"]
    back["handle"].remove()
    assert not back["weight"]._backward_hooks


class Labelled(torch.Tensor):  # type: ignore[misc]
    """A tensor of a class of its own."""


def test_classes_derived_from_tensors_stay() -> None:
    made = torch.arange(5.0).as_subclass(Labelled)
    made.label = "x"
    buffer = nn.Buffer(torch.ones(2))
    lazy = nn.LazyLinear(3)
    back = trip(made=made, same=made[1:], buffer=buffer, lazy=lazy, frozen=nn.Parameter(torch.ones(1), False))
    assert type(back["made"]) is Labelled
    assert back["made"].label == "x"
    back["made"][1] = 9
    assert back["same"][0] == 9
    assert isinstance(back["buffer"], nn.Buffer)
    assert back["lazy"](torch.ones(2, 4)).shape == (2, 3)
    assert not back["frozen"].requires_grad


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:.*torch.ao.quantization:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*beta state:UserWarning", "ignore:.*prototype stage:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(40).to_sparse(),
        lambda: torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,)),
        lambda: torch.eye(40).to_sparse_csr(),
        lambda: torch.eye(40).to_sparse_csc(),
        lambda: torch.eye(40).to_sparse_bsr((2, 2)),
        lambda: torch.ones(40, 3, dtype=torch.cfloat).T.conj(),
        lambda: torch.ones(40, dtype=torch.cfloat).conj().imag,
        lambda: torch.zeros(3, 0, dtype=torch.bool),
        lambda: torch.tensor(3),
        lambda: torch.arange(3).expand(4, 3),
        lambda: torch.ones(9, dtype=torch.float8_e4m3fn),
        lambda: torch.ones(9, dtype=torch.bfloat16),
    ],
)
def test_every_layout_comes_back_as_it_was(make: Any) -> None:
    made = make()
    back = trip(made=made)["made"]
    assert (back.dtype, back.layout, back.shape) == (made.dtype, made.layout, made.shape)
    assert (back.is_conj(), back.is_neg()) == (made.is_conj(), made.is_neg())
    if made.layout is torch.strided:
        assert back.stride() == made.stride()
        assert torch.equal(back.to(torch.cfloat), made.to(torch.cfloat))
    else:
        assert torch.equal(back.to_dense(), made.to_dense())
        assert made.layout is not torch.sparse_coo or back.is_coalesced() == made.is_coalesced()


def test_quantized_nested_and_meta_tensors_come_back() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 2, torch.qint8)
        each = torch.quantize_per_channel(torch.ones(2, 3), torch.ones(2), torch.zeros(2), 0, torch.quint8)
        strided = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)])
        jagged = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged)
        meta = torch.empty(3, 4, device="meta", requires_grad=True)
        back = trip(small=small, each=each, strided=strided, jagged=jagged, meta=meta)
        assert torch.equal(back["small"].dequantize(), small.dequantize())
        assert back["small"].q_scale() == 0.5
        assert torch.equal(back["each"].dequantize(), each.dequantize())
        for name in ("strided", "jagged"):
            assert [part.tolist() for part in back[name].unbind()] == [[1, 1], [0, 0, 0]]
        assert (back["meta"].device.type, back["meta"].shape, back["meta"].requires_grad) == (
            "meta",
            (3, 4),
            True,
        )


def test_inference_tensors_stay_so() -> None:
    with torch.inference_mode():
        made = torch.ones(3)
    assert trip(made=made)["made"].is_inference()


def test_a_stream_of_random_numbers_goes_on() -> None:
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    back = trip(generator=generator)["generator"]
    assert torch.equal(torch.rand(4, generator=back), torch.rand(4, generator=generator))


def test_storages_of_shared_memory_and_of_files_stay_so(tmp_path: Any) -> None:
    shared = torch.arange(5).share_memory_()
    (tmp_path / "data").write_bytes(bytes(16))
    filed = torch.from_file(str(tmp_path / "data"), shared=True, size=4, dtype=torch.int32)
    back = trip(shared=shared, filed=filed)
    assert back["shared"].is_shared()
    back["filed"][1] = 6
    assert (tmp_path / "data").read_bytes()[4] == 6


def test_a_tensor_inside_a_transformation_is_lost_and_nothing_else() -> None:
    met = []
    torch.func.vmap(lambda x: met.append(save(x=x, y=3)) or x)(torch.ones(2))
    assert "transformation" in met[0].lost[0].reason
    assert met[0].back()["y"] == 3


def test_deep_copies_and_what_was_restored_are_alike() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    back = trip(model=model)["model"]
    given = torch.randn(1, 3, 8)
    with torch.no_grad():
        assert torch.equal(back(given), copy.deepcopy(model)(given))


def test_arrays_that_look_at_nothing_of_a_tensor_come_back_empty() -> None:
    nothing = torch.arange(6.0)[2:2]
    array = nothing.numpy()
    back = trip(array=array, nothing=nothing, back=array[::-1], wide=np.broadcast_to(array, (2, 0)))
    assert [back[name].shape for name in ("array", "back", "wide")] == [(0,), (0,), (2, 0)]
    assert back["array"].dtype == array.dtype
