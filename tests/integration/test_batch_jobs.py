"""The recipe for agents as jobs by dask-jobqueue, and a batch system that stands in: it runs what it gets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol.join import API_PORT
from tests.integration.test_several_hosts import Pool
from tests.support.accounts import program
from tests.support.hosts import inside, network
from tests.support.pool_process import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.beside, pytest.mark.xdist_group("hosts")]
RECIPE = Path(__file__).parents[2] / "docs" / "deploy" / "gpupool_agents_jobqueue.py"
#: Takes a job as Slurm does, and runs it at once on the node n5.
SBATCH = """#!/bin/sh
cp "$1" "$JOBS/job"
SLURM_JOB_ID=17 SLURMD_NODENAME=n5 bash "$JOBS/job" > "$JOBS/log" 2>&1 &
echo $! > "$JOBS/pid"
echo "Submitted batch job 17"
"""
SCANCEL = """#!/bin/sh
[ "$1" = 17 ] && kill -TERM "$(cat "$JOBS/pid")"
"""
#: What somebody types.
TYPED = """
agents.scale(1)
input()
agents.close()
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with network(tmp_path, 4) as made:
        pool = Pool(made)
        pool.serve()
        yield pool


def test_a_job_of_the_recipe_joins_as_a_node_and_leaves_when_it_is_not_wanted(
    pool: Pool, tmp_path: Path
) -> None:
    node, jobs = pool.first, tmp_path / "jobs"
    jobs.mkdir()
    program(jobs, "sbatch", SBATCH)
    program(jobs, "scancel", SCANCEL)
    (node.home / ".gpupool-join-token").write_text(pool.token())
    (jobs / "jupyter").symlink_to(Path(sys.executable).with_name("jupyter"))
    text = RECIPE.read_text()
    for old, new in (
        ("/opt/gpupool/bin/jupyter", f"{jobs}/jupyter"),
        ("/tmp/gpupool-", f"{node.home}/gpupool-"),
        (f"https://pool.example.org:{API_PORT}", pool.url),
    ):
        assert old in text
        text = text.replace(old, new)
    (jobs / "recipe.py").write_text(text + TYPED)
    environment = {
        **{it: value for it, value in node.environment.items() if not it.startswith("JUPYTER_GPUPOOL")},
        "HOME": str(node.home),
        "JOBS": str(jobs),
        "PATH": f"{jobs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with inside(node):
        typing = subprocess.Popen(
            [sys.executable, str(jobs / "recipe.py")], env=environment, stdin=subprocess.PIPE, text=True
        )
    try:
        wait_for(lambda: pool.connected() == {"n5-17"}, f"it to join; {_log(jobs)}", 60.0)
        script = (jobs / "job").read_text()
        assert "#SBATCH --gres=gpu:1" in script
        assert re.search(r"#SBATCH -J gpupool-agent\n", script)
        assert "dask_worker" not in script
        typing.communicate("\n", timeout=60)
        assert typing.returncode == 0
        wait_for(lambda: pool.connected() == set(), f"it to leave; {_log(jobs)}", 60.0)
    finally:
        typing.kill()
        typing.wait(10)
        if (jobs / "pid").exists() and (Path("/proc") / (jobs / "pid").read_text().strip()).exists():
            os.kill(int((jobs / "pid").read_text()), 9)
        shutil.rmtree(node.home / "gpupool-17", ignore_errors=True)


def _log(jobs: Path) -> str:
    return (jobs / "log").read_text() if (jobs / "log").exists() else "no job was submitted"
