# /etc/gpupool/jupyter_gpupool_config.py of each GPU node: kernels run as the accounts of their owners.
c.PoolAgent.launcher = "setuid"
c.PoolAgent.socket_directory = "/run/gpupool-agent"
c.PoolAgent.accounts = {"visitor": ""}
c.PoolAgent.require_encryption = True
