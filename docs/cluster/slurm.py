"""Start a Lookalike cluster on SLURM: python slurm.py JOBS

Run it on the head, the machine that has the collection on its local disk, in an environment with lookalike[cluster] and
dask-jobqueue. Each job runs 16 workers on one machine. The certificates come from dask's configuration.
"""

import sys
import time

from dask_jobqueue import SLURMCluster
from distributed import Security

cluster = SLURMCluster(
    cores=16,
    processes=16,  # one worker per core
    memory="64GB",  # requested from SLURM
    walltime="12:00:00",
    protocol="tls://",
    security=Security(),
    scheduler_options={"port": 8786, "dashboard_address": "127.0.0.1:0"},
    worker_extra_args=["--memory-limit", "0"],  # mapped files count as a worker's memory, although they are not
    job_script_prologue=["export DASK_CONFIG=/shared/lookalike/dask"],  # a folder with tls.yaml that all machines see
)
cluster.scale(jobs=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
print(f"lookalike --cluster {cluster.scheduler_address} add /shared/photos", flush=True)
while True:
    time.sleep(60)
