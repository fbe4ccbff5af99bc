"""Devices of images, and every block of one read."""

from pathlib import Path

from talos.system.block.mapped import CHUNK, find_image_devices, read_whole


def make_device(sysfs: Path, name: str, below: str, *, is_readonly: bool) -> None:
    (sysfs / "block" / name / "slaves" / below).mkdir(parents=True)
    (sysfs / "block" / name / "ro").write_text(f"{is_readonly:d}\n")


def test_images_differ_from_volumes(tmp_path: Path) -> None:
    make_device(tmp_path, "dm-0", "loop0", is_readonly=True)
    make_device(tmp_path, "dm-1", "loop2", is_readonly=True)
    make_device(tmp_path, "dm-2", "vda5", is_readonly=False)
    make_device(tmp_path, "dm-3", "vdb", is_readonly=True)
    make_device(tmp_path, "dm-4", "loop4", is_readonly=False)
    assert find_image_devices(tmp_path, Path("/dev")) == [Path("/dev/dm-0"), Path("/dev/dm-1")]


async def test_a_device_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "dm-0"
    path.write_bytes(b"a" * (2 * CHUNK + 4096))
    assert await read_whole(path) == 2 * CHUNK + 4096
