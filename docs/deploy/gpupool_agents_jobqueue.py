"""Agents as jobs of a batch system, by dask-jobqueue: python -i gpupool_agents_jobqueue.py, agents.scale(4).

Each job is a node of the pool for as long as it runs; agents.scale(0) ends them in good order. The same works
with the other job classes of dask-jobqueue, and the variables of their batch system.
"""

from dask_jobqueue import SLURMCluster
from dask_jobqueue.slurm import SLURMJob

#: The token: jupyter gpupool token create --join --uses 20 --for 1d; readable by its owner only.
#: What is a job's own lies on a disk of its node: sockets and locks do not work on a network's.
AGENT = """
export JUPYTER_GPUPOOL_RUNTIME_DIR="/tmp/gpupool-$SLURM_JOB_ID"
export JUPYTER_GPUPOOL_DATA_DIR="/tmp/gpupool-$SLURM_JOB_ID/data"
exec /opt/gpupool/bin/jupyter gpupool agent https://pool.example.org:8750 \\
  --node "$SLURMD_NODENAME-$SLURM_JOB_ID" --join-token-file "$HOME/.gpupool-join-token"
"""


class AgentJob(SLURMJob):
    """A job that runs an agent in place of a worker of Dask."""

    def job_script(self) -> str:
        """Write the job: its directives are those of dask-jobqueue."""
        return f"{self.shebang}\n{self.job_header}\n{AGENT}"


agents = SLURMCluster(
    job_cls=AgentJob,
    job_name="gpupool-agent",
    queue="gpu",
    cores=8,
    memory="64GiB",
    walltime="08:00:00",
    job_extra_directives=["--gres=gpu:1", "--signal=TERM@60"],
    # nobody connects to it: agents speak with the pool
    scheduler_options={"host": "127.0.0.1", "dashboard": False},
)
