"""A notebook's file, of which one entry of the metadata is changed and nothing else.

Rules of this module: nbformat says whether it is a notebook; the way it was written (indentation, letters
beyond ASCII, the end of the last line) is found out and kept; a file that was changed meanwhile is not
overwritten; the new one takes the old one's place at once, with its mode.
"""

from __future__ import annotations

import copy
import json
import os
import secrets
import warnings
from pathlib import Path
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError

#: Indentations that are known; Jupyter's own is 1.
_INDENTS: tuple[int | str | None, ...] = (1, 2, 4, None, "\t", 3)


class NotebookRefused(GPUPoolError):
    """Raised when a file is no notebook, or cannot be read or replaced. It is as it was."""

    code = "notebook_refused"


class NotebookText:
    """One notebook on the disk.

    Parameters
    ----------
    path : Path
        The file itself.
    data : bytes
        What is in it.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._data = data
        try:
            self._text = data.decode()
            self._content: dict[str, Any] = json.loads(self._text)
        except ValueError as error:
            raise NotebookRefused(f"{path} is no notebook: {error}.", hint="Name an .ipynb file.") from error
        _check(path, self._content)

    @classmethod
    def read(cls, path: Path) -> NotebookText:
        """Read one.

        Raises
        ------
        NotebookRefused
            If it cannot be, or is no notebook.
        """
        try:
            real = path.resolve(strict=True)
            return cls(real, real.read_bytes())
        except OSError as error:
            raise NotebookRefused(
                f"{path} cannot be read: {error.strerror or error}.", hint="Name an .ipynb file."
            ) from error

    @property
    def metadata(self) -> dict[str, Any]:
        """The notebook's own."""
        found: dict[str, Any] = self._content["metadata"]
        return found

    def set_metadata(self, name: str, value: Any | None) -> None:
        """Set one entry, or take it out, and replace the file.

        Raises
        ------
        NotebookRefused
            If the file has changed since it was read, or cannot be replaced.
        """
        changed = copy.deepcopy(self._content)
        if value is None:
            del changed["metadata"][name]
        else:
            changed["metadata"][name] = value
            if list(self.metadata) == sorted(self.metadata):  # as Jupyter writes them
                changed["metadata"] = dict(sorted(changed["metadata"].items()))
        _check(self._path, changed)
        try:
            self._replace(self._style(changed).encode())
        except OSError as error:
            raise NotebookRefused(
                f"{self._path} cannot be replaced: {error.strerror or error}.", hint="It is as it was."
            ) from error

    def _style(self, changed: dict[str, Any]) -> str:
        """Write it as the file was written; as Jupyter does where nobody can tell how that was."""
        body = self._text.rstrip("\r\n")
        end = self._text[len(body) :]
        for letters in (False, True):
            for indent in _INDENTS:
                for separators in (None, (",", ":"), (", ", ": ")):
                    how: dict[str, Any] = {
                        "indent": indent,
                        "ensure_ascii": letters,
                        "separators": separators,
                    }
                    for line in ("\n", "\r\n"):
                        if json.dumps(self._content, **how).replace("\n", line) == body:
                            return json.dumps(changed, **how).replace("\n", line) + end
        return json.dumps(changed, indent=1, ensure_ascii=False) + "\n"

    def _replace(self, data: bytes) -> None:
        """Put a new file in the old one's place, unless somebody else has written there."""
        draft = self._path.with_name(f".{self._path.name}-{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            draft.chmod(self._path.stat().st_mode & 0o7777)
            if self._path.read_bytes() != self._data:
                raise NotebookRefused(
                    f"{self._path} was changed meanwhile.", hint="It is as somebody else wrote it; try again."
                )
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)


def _check(path: Path, content: Any) -> None:
    """Refuse what nbformat does not know as a notebook."""
    import nbformat

    try:
        if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
            raise ValueError("it has no metadata")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it would mend, it mends in the copy
            nbformat.validate(copy.deepcopy(content))
    except (nbformat.ValidationError, ValueError) as error:
        first = str(getattr(error, "message", "") or error).partition("\n")[0]
        raise NotebookRefused(
            f"{path} is not a valid notebook: {first}.", hint="Open it in Jupyter and save it again."
        ) from error
