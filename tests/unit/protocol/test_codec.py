"""JSON to structs and back, and what is said of messages that cannot be read."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol import codec, documents, messages
from jupyter_gpupool.protocol.codec import BadMessage

STRUCTS = [
    kind
    for kind in {**vars(documents), **vars(messages)}.values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
]


def test_an_unknown_field_is_ignored() -> None:
    request = codec.decode('{"compute_milli": 250, "colour": "blue"}', documents.LeaseRequest)
    assert request.compute_milli == 250


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_no_structure_forbids_unknown_fields(kind: type[msgspec.Struct]) -> None:
    assert not kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_structure_says_what_it_is(kind: type[msgspec.Struct]) -> None:
    assert (kind.__doc__ or "").strip()


def test_enumerations_travel_as_their_values() -> None:
    request = documents.LeaseRequest(compute_milli=250, kind=DeviceKind.CPU)
    assert json.loads(codec.encode(request))["kind"] == DeviceKind.CPU.value


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ("null", "object"),
        ("[]", "object"),
        ("{}", "compute_milli"),
        ('{"compute_milli": "250"}', "compute_milli"),
        ('{"compute_milli": 0.25}', "compute_milli"),
        ('{"compute_milli": true}', "compute_milli"),
        ('{"compute_milli": 250, "kind": "tpu"}', "kind"),
        ('{"compute_milli": 250} trailing', "trailing"),
        ('{"compute_milli": 250, "wait_seconds": NaN}', "malformed"),
        (b'{"device": "\xff", "compute_milli": 1}', "utf-8"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_field_at_fault(data: bytes | str, word: str) -> None:
    with pytest.raises(BadMessage) as caught:
        codec.decode(data, documents.LeaseRequest)
    assert word in str(caught.value).lower()
    assert caught.value.code == "bad_message"


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(BadMessage):
        codec.decode('{"x": ' + "[" * 200_000, documents.LeaseRequest)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (codec.decode_orders, codec.decode_reports):
        with contextlib.suppress(BadMessage):
            read(data)


def structures(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a struct: every field is drawn from its type."""
    return st.builds(kind, **{field.name: values(field.type) for field in msgspec.structs.fields(kind)})


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of one annotation that the protocol uses."""
    origin, arguments = getattr(kind, "__origin__", None), getattr(kind, "__args__", ())
    if origin is list:
        return st.lists(values(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), values(arguments[1]), max_size=2)
    if arguments:
        return st.one_of([values(argument) for argument in arguments])
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind is int:
        return st.integers(-(2**63), 2**63)
    if kind is str:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structures(kind)
    return st.none() if kind is type(None) else st.from_type(kind)


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_every_structure_survives_the_journey(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(structures(kind))
    assert codec.decode(codec.encode(value), kind) == value


@given(st.lists(values(messages.Order), max_size=3))
def test_orders_keep_their_kinds(orders: list[messages.Order]) -> None:
    assert codec.decode_orders(codec.encode(orders)) == orders


@given(st.lists(values(messages.Report), max_size=3))
def test_reports_keep_their_kinds(reports: list[messages.Report]) -> None:
    assert codec.decode_reports(codec.encode(reports)) == reports


def test_an_order_that_a_newer_service_invented_is_refused_by_name() -> None:
    with pytest.raises(BadMessage, match="teleport"):
        codec.decode_orders(b'[{"type": "teleport"}]')


def test_a_ticket_never_travels_to_the_agent() -> None:
    names = {field.name for field in msgspec.structs.fields(messages.PrepareOrder)}
    assert "ticket" not in names
    assert "ticket_sha256" in names
