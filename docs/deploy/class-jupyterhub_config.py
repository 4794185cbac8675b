# To be read from jupyterhub_config.py: the pool of a class, with the Hub on a machine without GPUs.
import jupyter_gpupool.hub

jupyter_gpupool.hub.configure(
    c,
    administrators=["ann"],
    administrator_groups=["staff"],
    arguments=[
        "--listen=hub.example.org",
        "--PoolService.start_agent=False",
        "--PoolService.quotas_file=/etc/gpupool/class-quotas.yaml",
        "--PoolService.reservations_file=/etc/gpupool/class-reservations.yaml",
        "--log-lines=json",
    ],
    environment={
        "JUPYTER_GPUPOOL_RUNTIME_DIR": "/run/gpupool",
        "JUPYTER_GPUPOOL_DATA_DIR": "/var/lib/gpupool",
    },
)
