"""JSON to structs and back: one encoder, one error.

Rule of this module: whatever cannot be decoded becomes one sentence that names the field.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.messages import Order, Report

T = TypeVar("T")


class BadMessage(GPUPoolError):
    """Raised when bytes are not the JSON that was expected. The message names the field at fault."""

    code = "bad_message"


#: What msgspec raises on bytes from anybody; RecursionError is a message nested too deeply.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode(value: object) -> bytes:
    """Encode a struct, or a list of structs, as JSON."""
    return _encoder.encode(value)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON into ``kind``.

    Raises
    ------
    BadMessage
        If it is not JSON, or not of that shape.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)  # type: ignore[no-any-return]
    except _UNREADABLE as error:
        raise BadMessage(f"This message cannot be read: {error}.") from error


_orders = msgspec.json.Decoder(list[Order])
_reports = msgspec.json.Decoder(list[Report])


def decode_orders(data: bytes) -> list[Order]:
    """Decode what the pool service sent to an agent."""
    try:
        return _orders.decode(data)
    except _UNREADABLE as error:
        raise BadMessage(f"These orders cannot be read: {error}.") from error


def decode_reports(data: bytes) -> list[Report]:
    """Decode what an agent sent to the pool service."""
    try:
        return _reports.decode(data)
    except _UNREADABLE as error:
        raise BadMessage(f"These reports cannot be read: {error}.") from error
