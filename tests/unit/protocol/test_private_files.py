"""Private files are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpupool.protocol.paths import is_local, write_private


def test_a_private_file_replaces_what_was_there_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_what_was_there_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.mkdir()
    with pytest.raises(OSError, match="key"):
        write_private(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
    assert path.is_dir()


def test_it_is_written_beside_a_link_and_not_through_it(tmp_path: Path) -> None:
    target = tmp_path / "other"
    target.write_text("theirs")
    path = tmp_path / "key"
    path.symlink_to(target)
    write_private(path, b"new")
    assert target.read_text() == "theirs"
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("url", "local"),
    [("", True), ("/data/store", True), ("file:///data", True), ("s3://bucket/x", False), ("gs://b", False)],
)
def test_an_address_of_a_store_is_on_this_machine_or_it_is_not(url: str, local: bool) -> None:
    assert is_local(url) is local
