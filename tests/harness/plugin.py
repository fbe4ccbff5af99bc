"""What the tests on nodes share: after a failure, the cluster's logs."""

from collections.abc import Generator

import pytest
from tests.harness.cluster import Cluster
from tests.harness.kubernetes import Kubernetes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add services, logs and consoles to the report of a test that failed."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            if isinstance(value, Cluster | Kubernetes):
                try:
                    report.sections.append(("cluster", value.diagnose()))
                except Exception as error:  # noqa: BLE001 - the failure at hand matters more
                    report.sections.append(("cluster", f"can't be looked at: {error}"))
    return report
