"""The first process of the workloads' own namespaces, as a service: while it runs, so may ``cri``."""

import signal

from talos.machined.node.workloads import SANDBOXD
from talos.machined.services.spec import Isolate, ServiceSpec

SANDBOXD_SERVICE = ServiceSpec(
    id=SANDBOXD, start=Isolate(), on_demand=True, stop_signal=signal.SIGKILL, oom_score_adj=-1000
)
"""On demand of the config, for as long as the machine runs. It stays in the control group of PID 1: it works
for the node, and what ends it ends all pods."""
