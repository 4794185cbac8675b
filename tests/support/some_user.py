"""What a spawner of JupyterHub asks of the user whose server it starts."""

from __future__ import annotations

from typing import Any


class SomeUser:
    """One user; whatever token is made is the same."""

    name = escaped_name = "ann"
    id = 1
    url = "/user/ann/"

    def __init__(self, token: str) -> None:
        self._token = token
        self.made: list[dict[str, Any]] = []

    def new_api_token(self, **options: Any) -> str:
        """Make a token."""
        self.made.append(options)
        return self._token
