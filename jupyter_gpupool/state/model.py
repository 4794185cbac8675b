"""What a snapshot is made of, and what is said of it.

Rule of this module: plain frozen values that are written down as they are (the format of snapshots); a field
is only ever added, with a default.
"""

from __future__ import annotations

from enum import Enum

import msgspec

#: Version of the format that is written.
FORMAT = 1
#: Bytes of buffers are kept in chunks of this size.
CHUNK_BYTES = 4 * 1024 * 1024


class FindingKind(Enum):
    """What there is to say of a value."""

    NOT_SAVED = "not_saved"
    """It is not in the snapshot, or could not be made again from it."""
    REBUILT = "rebuilt"
    """It was made again by a recipe, not from its own bytes."""
    CHANGED = "changed"
    """It came back with another meaning (on another device, without its graph)."""
    LEFT_OUT = "left_out"
    """It was left out on purpose: a secret, or by ``--only`` and ``--except``."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to say of one value.

    Attributes
    ----------
    kind : FindingKind
        What there is to say.
    variable : str
        Name of the variable that it was reached by; a section of the process such as ``(environment)``.
    path : str
        Where below the variable it is, as Python (``cfg['db'].lock``); the variable itself where it is that.
    type_name : str
        Its type, with the module.
    reason : str
        Why, as a clause ("a generator cannot be saved while it runs").
    hint : str
        What to do, as a sentence; may be empty.
    """

    kind: FindingKind
    variable: str
    path: str
    type_name: str
    reason: str
    hint: str = ""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of a snapshot, as it is shown in lists.

    Attributes
    ----------
    name : str
        Its name.
    type_name : str
        Its type, with the module where that is not builtins.
    summary : str
        A few words about it, made without running code of its class ("float64, 1000 x 20").
    nbytes : int
        Bytes of the buffers that it was the first to reach; 0 for small things.
    digest : str
        Changes when the value does, as far as can be told: of its part of the stream, and its buffers.
    """

    name: str
    type_name: str
    summary: str = ""
    nbytes: int = 0
    digest: str = ""


class RootKind(Enum):
    """Who owns a stretch of memory when it is made again."""

    NUMPY = "numpy"
    """A numpy array, or nobody in particular."""
    TORCH = "torch"
    """A storage of torch: also where numpy arrays look at the same memory."""


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of memory that arrays and tensors look at.

    Attributes
    ----------
    nbytes : int
        Its length.
    chunks : list of bytes
        Ids of its chunks, of `CHUNK_BYTES` each but for the last one.
    kind : RootKind
        Who owns it when it is made again.
    device : str
        Where it was: "cpu", "cuda:0", ….
    """

    nbytes: int
    chunks: list[bytes]
    kind: RootKind = RootKind.NUMPY
    device: str = "cpu"


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the stream of objects.

    Attributes
    ----------
    nbytes : int
        Its length.
    chunks : list of bytes
        Ids of its chunks.
    """

    nbytes: int
    chunks: list[bytes]


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """The inside of a snapshot: kept as chunks of their own, so that an unchanged one is written once.

    Attributes
    ----------
    variables : list of Variable
        In the order of the namespace.
    stream : list of Segment
        The pickled objects: the definitions first, then one part for each variable, then the process.
    roots : list of Root
        What arrays and tensors look at, by number.
    offsets : list of (int, int)
        For each region number that the stream speaks of: its root, and where it begins in it.
    sections : list of str
        What of the process is in the stream after the variables.
    partial : bool
        True when only some of the variables were to be saved: the others stay when it is restored.
    """

    variables: list[Variable]
    stream: list[Segment]
    roots: list[Root]
    offsets: list[tuple[int, int]] = []
    sections: list[str] = []
    partial: bool = False


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a snapshot was taken.

    Attributes
    ----------
    python : str
        Version of Python.
    platform : str
        Operating system and machine.
    packages : dict of str to str
        Versions of the distributions whose modules the objects need.
    """

    python: str
    platform: str
    packages: dict[str, str] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The outside of a snapshot: small, and signed with its owner's key.

    Attributes
    ----------
    format : int
        `FORMAT`.
    id : str
        Unique, and in the order of time.
    name : str
        What its owner calls it; a name stands for its latest snapshot.
    note, notebook, owner : str
        What its owner says of it, the notebook's path, and whose it is.
    kernel, hostname : str
        The id of the kernel that it was taken in (empty outside one), and its machine.
    created_ms : int
        When it was taken: UTC, milliseconds since the epoch.
    seconds : float
        How long the kernel was kept.
    automatic : bool
        True when nobody asked for it by name.
    total_bytes, new_bytes : int
        Bytes of all that it holds, and those that were not in the store before.
    count : int
        How many variables.
    findings : list of Finding
        What is to be said of it.
    environment : Environment
        Where it was taken.
    details : list of bytes
        Ids of the chunks of its `Details`, packed with msgpack.
    details_bytes : int
        Their length.
    """

    format: int = FORMAT
    id: str
    name: str
    note: str = ""
    notebook: str = ""
    owner: str = ""
    kernel: str = ""
    hostname: str = ""
    created_ms: int
    seconds: float = 0.0
    automatic: bool = False
    total_bytes: int = 0
    new_bytes: int = 0
    count: int = 0
    findings: list[Finding] = []
    environment: Environment
    details: list[bytes]
    details_bytes: int
