"""The recipe for agents in pods: what a pod would run is run here, with what Kubernetes would give it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.join import API_PORT
from tests.integration.test_several_hosts import Pool
from tests.support.hosts import Host, network
from tests.support.pool_process import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.xdist_group("hosts")]
RECIPE = Path(__file__).parents[2] / "docs" / "deploy" / "gpupool-agents.yaml"
PROGRAM = "/opt/gpupool/bin/jupyter"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with network(tmp_path_factory.mktemp("pods"), 4) as made:
        pool = Pool(made)
        pool.serve()
        yield pool


def recipe() -> Any:
    """Read what the workers of the recipe are."""
    return yaml.safe_load(RECIPE.read_text())["spec"]["worker"]


def start_pod(pool: Pool, host: Host, worker: str, token: str) -> None:
    """Do for one worker what the operator and Kubernetes do; the pod's disks are folders of the host."""
    pod = recipe()["spec"]
    (container,) = pod["containers"]
    places = {}
    for mount in container["volumeMounts"]:
        places[mount["mountPath"]] = str(host.home / worker / mount["name"])
        Path(places[mount["mountPath"]]).mkdir(parents=True)
    (secret,) = (it for it in pod["volumes"] if "secret" in it)
    (host.home / worker / secret["name"] / "join-token").write_text(token)
    given = {it["name"]: it["value"] for it in container["env"]}
    variables = {**given, "DASK_WORKER_NAME": worker, "DASK_SCHEDULER_ADDRESS": "tcp://nobody:8786"}

    def as_there(text: str) -> str:
        text = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], text)
        for path, place in places.items():
            text = text.replace(path, place)
        return text.replace(f"https://pool.example.org:{API_PORT}", pool.url)

    assert container["command"] == [PROGRAM]
    subcommand, *words = map(as_there, container["args"])
    assert subcommand == "gpupool"
    host.environment.update({name: as_there(value) for name, value in variables.items()})
    host.start(*words, "--emulate", "1xA100-80GB", log="agent.log")


def test_a_pod_of_the_recipe_joins_as_a_node_of_its_name(pool: Pool) -> None:
    token = pool.token("--uses", str(recipe()["replicas"]))
    for host, worker in ((pool.first, "gpupool-agents-worker-a"), (pool.second, "gpupool-agents-worker-b")):
        start_pod(pool, host, worker, token)
    expected = {"gpupool-agents-worker-a", "gpupool-agents-worker-b"}
    wait_for(lambda: pool.connected() == expected, f"both to join; {pool.first.log('agent.log')}", 60.0)
    wait_for(lambda: sum(it["offered"] for it in pool.state()["devices"]) == 2, "their devices")


def test_the_recipe_names_only_what_there_is() -> None:
    (container,) = recipe()["spec"]["containers"]
    known = {value for name, value in vars(names).items() if name.startswith("ENV_")}
    assert {it["name"] for it in container["env"]} <= known
    mounted = [it["mountPath"] for it in container["volumeMounts"]]
    paths = [it["value"] for it in container["env"]] + [it for it in container["args"] if it.startswith("/")]
    assert all(any(path.startswith(f"{place}/") for place in mounted) for path in paths)
    assert {it["name"] for it in container["volumeMounts"]} == {
        it["name"] for it in recipe()["spec"]["volumes"]
    }
    assert shutil.which("jupyter", path=str(Path(sys.executable).parent))  # what /opt/gpupool/bin has, too
