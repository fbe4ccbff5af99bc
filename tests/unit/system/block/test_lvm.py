"""lvm's reports are read, its names checked, its failures reported in one line."""

import pytest
from tests.unit.disks.lvm.memory_lvm import MemoryLvm

from talos.system.block.lvm import Lvm, LvmReport, is_name, is_part
from talos.system.errors import UserError
from talos.system.process import Finished

RECORDED = b"""
  {
      "report": [
          {
              "pv": [
                  {"pv_name":"/dev/loop3", "vg_name":"data", "pv_in_use":"used", "pv_size":"532676608"}
              ]
          }
      ]
      ,
      "log": [
      ]
  }
"""


async def test_a_report_is_read() -> None:
    report = await MemoryLvm(physical={"/dev/vdb": "pool"}).lvm.report()
    assert [row["pv_name"] for row in report.physical] == ["/dev/vdb"]
    assert [row["vg_name"] for row in report.find_groups("pool")] == ["pool"]
    assert report.find_logical("pool", "a") is None


@pytest.mark.parametrize("output", [b"", b"[]", b'{"report": 3}', b'{"report": [{"pv": [7]}]}', b"\xff"])
async def test_a_report_that_is_none_is_an_error(output: bytes) -> None:
    async def run(*_: object) -> Finished:
        return Finished(code=0, stdout=output)

    with pytest.raises(UserError, match="LVM: lvm pvs's answer can't be read"):
        await Lvm(run, lambda _: None).report()


async def test_recorded_output() -> None:
    async def run(argv: object, _: object) -> Finished:
        empty = b'{"report": [{"vg": [], "lv": []}]}'
        return Finished(code=0, stdout=RECORDED if "pvs" in str(argv) else empty)

    report = await Lvm(run, lambda _: None).report()
    assert report == LvmReport(
        physical=[{"pv_name": "/dev/loop3", "vg_name": "data", "pv_in_use": "used", "pv_size": "532676608"}],
        groups=[],
        logical=[],
    )


async def test_a_failure_is_one_line() -> None:
    memory = MemoryLvm(failing={"vgchange": 'Volume group "a" not found'})
    with pytest.raises(UserError, match='lvm vgchange ended with 5: Volume group "a" not found'):
        await memory.lvm.activate("a")


def test_names() -> None:
    assert all(is_name(text) for text in ("a", "vg-0", "A_b.c+d"))
    assert not any(is_name(text) for text in ("", "-a", ".", "..", "a/b", "a b", "x" * 128, "ä"))


def test_parts_of_volumes() -> None:
    assert all(is_part(name) for name in ("pool-data_rimage_0", "my--pool-data_rmeta_11"))
    assert not any(is_part(name) for name in ("pool-data", "pool_rimage_0-data", "luks2-u-x", ""))
