"""Addresses of servers, as they are handed from process to process."""

from __future__ import annotations

import pytest

from jupyter_gpupool.protocol import names


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("pool.example", "http://pool.example:80"),
        ("::1", "http://[::1]:80"),
    ],
)
def test_an_address_of_any_kind_becomes_a_url_that_names_its_port(host: str, url: str) -> None:
    assert names.origin("http", host, 80) == url
