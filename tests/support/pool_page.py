"""The page of a pool in a Hub that stands in, and a browser without scripts that uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.pool_process import PoolProcess, running_pool, world
from tests.support.stand_in_hub import StandInHub, stand_in_hub

PAGE = "/services/gpupool/"


@contextmanager
def pool_of_a_hub(home: Path, *arguments: str) -> Iterator[tuple[PoolProcess, StandInHub]]:
    """Run a pool that is a service of a Hub."""
    with stand_in_hub() as hub:
        environment = world(home) | {
            "JUPYTERHUB_API_URL": hub.url,
            "JUPYTERHUB_API_TOKEN": "token-of-the-service",
            "JUPYTERHUB_SERVICE_PREFIX": PAGE,
        }
        with running_pool(environment, emulate="2xA100-80GB", arguments=("--hub", *arguments)) as pool:
            yield pool, hub


class Browser:
    """A browser without scripts: keeps its cookie, and sends the page's own forms."""

    def __init__(self, pool: PoolProcess, hub: StandInHub, token: str) -> None:
        self.pool = pool
        began = pool.http.request("GET", pool.url + PAGE, redirect=False)
        state = parse_qs(urlsplit(began.headers["Location"]).query)["state"][0]
        hub.codes["the-code"] = token
        cookie = began.headers["Set-Cookie"].partition(";")[0]
        back = pool.http.request(
            "GET",
            f"{pool.url}{PAGE}oauth_callback?code=the-code&state={state}",
            redirect=False,
            headers={"Cookie": cookie},
        )
        assert (back.status, back.headers["Location"]) == (302, PAGE), back.data
        self.cookie = back.headers["Set-Cookie"].partition(";")[0]

    def page(self, path: str = "") -> str:
        answer = self.pool.http.request("GET", self.pool.url + PAGE + path, headers={"Cookie": self.cookie})
        assert answer.status == 200, answer.data
        return answer.data.decode()

    def send(self, action: str, **fields: str) -> tuple[int, str]:
        """Send the page's form of that action, filled in, from the page itself."""
        form = re.search(rf'<form method="post" action="{PAGE}{action}">(.*?)</form>', self.page(), re.S)
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form[1]) if form else []
        return self.post(action, {**dict(hidden), **fields}, **{"Sec-Fetch-Site": "same-origin"})

    def post(self, action: str, fields: dict[str, str], **headers: str) -> tuple[int, str]:
        answer = self.pool.http.request(
            "POST",
            self.pool.url + PAGE + action,
            body=urlencode(fields),
            redirect=False,
            headers={
                "Cookie": self.cookie,
                "Content-Type": "application/x-www-form-urlencoded",
                **headers,
            },
        )
        return answer.status, answer.data.decode()
