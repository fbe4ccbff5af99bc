"""How long a shutdown waits for the kubelet."""

from typing import Any

import pytest

from talos.machined.services.kubelet_shutdown import MAX_SHUTDOWN_DELAY, find_period


def rows(*seconds: object) -> list[dict[str, object]]:
    return [{"priority": 100, "shutdownGracePeriodSeconds": number} for number in seconds]


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "10s"}, 30),
        ({"shutdownGracePeriod": "1m30s"}, 90),
        ({"shutdownGracePeriod": "24h"}, MAX_SHUTDOWN_DELAY),
        ({"shutdownGracePeriod": "-1s"}, 0),
        ({"shutdownGracePeriod": "soon"}, 0),
        ({"shutdownGracePeriod": 7}, 0),
        ({}, 0),
        ({"shutdownGracePeriod": "0s", "shutdownGracePeriodByPodPriority": rows(10, 180, 60)}, 250),
        ({"shutdownGracePeriodByPodPriority": rows(float("1e99"))}, MAX_SHUTDOWN_DELAY),
        ({"shutdownGracePeriodByPodPriority": ["x", *rows("y", 20)]}, 20),
        ({"shutdownGracePeriodByPodPriority": []}, 0),
    ],
)
def test_the_kubelets_config_says_how_long_pods_have(config: dict[str, Any], seconds: float) -> None:
    assert find_period(config) == seconds
