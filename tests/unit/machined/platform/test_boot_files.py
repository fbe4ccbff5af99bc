"""Files of a boot server, which an installation loads once more."""

from pathlib import Path

import pytest
from tests.unit.machined.platform.config_sources.test_web import Site

from talos.api.definitions.network_pb2 import StatusSpec
from talos.machined.platform import boot_files
from talos.machined.platform.boot_files import load_boot_file
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.backoff import Backoff
from talos.system.errors import UserError


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_files, "RETRY_BACKOFF", Backoff(0.0, 0.0))


async def load(site: Site, path: Path) -> list[str]:
    """What is reported while a file of it is loaded."""
    reports: list[str] = []
    state = MemoryState()
    await put(state, *ids.NETWORK_STATUS, StatusSpec(address_ready=True))
    with site.serving() as url:
        await load_boot_file(state, reports.append, f"{url}/talos.efi", path)
    return reports


async def test_a_failure_is_reported_and_tried_again(tmp_path: Path) -> None:
    site = Site(
        {"/talos.efi": [(503, {}, b""), (200, {"Content-Length": "9"}, b"half"), (200, {}, b"image")]}
    )
    reports = await load(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"image"
    assert [report.partition(": ")[2] for report in reports] == [
        "the server replied 503 Service Unavailable, next try in 0 s",
        "the connection ended before all had come, next try in 0 s",
    ]


async def test_what_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"/talos\.efi: is not there: the server replied 404 Not Found"):
        await load(Site({"/talos.efi": [(404, {}, b"")]}), tmp_path / "file")


async def test_a_file_without_end_is_not_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_files, "MAX_BYTES", 4)
    site = Site({"/talos.efi": [(200, {}, b"image"), (404, {}, b"")]})
    with pytest.raises(UserError, match="is not there"):
        await load(site, tmp_path / "file")
