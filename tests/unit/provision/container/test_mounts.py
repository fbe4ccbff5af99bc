"""How a container node finds its control groups: as the machine below it has them."""

from pathlib import Path

import pytest

from talos.provision.container import mounts
from talos.provision.host.cgroups import Hierarchy

PATH = Path("/sys/fs/cgroup")
CPU = Hierarchy(path=PATH / "cpu,cpuacct", controllers=frozenset({"cpuacct", "cpu"}), unified=False)
NAMED = Hierarchy(path=PATH / "systemd", controllers=frozenset({"name=systemd"}), unified=False)
UNIFIED = Hierarchy(path=PATH / "unified", controllers=frozenset[str](), unified=True)


@pytest.mark.parametrize(
    ("hierarchies", "expected"),
    [
        ((UNIFIED,), [("cgroup2", "", "cgroup2", "")]),
        (
            (CPU, NAMED, UNIFIED),
            [
                ("tmpfs", "", "tmpfs", "mode=0755,size=64k"),
                ("cgroup", "cpu,cpuacct", "cgroup", "cpu,cpuacct"),
                ("cgroup", "systemd", "cgroup", "none,name=systemd"),
                ("cgroup2", "unified", "cgroup2", ""),
            ],
        ),
    ],
)
def test_the_node_has_the_hierarchies_of_the_machine_below(
    hierarchies: tuple[Hierarchy, ...],
    expected: list[tuple[str, str, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, str, str, str]] = []

    def mount(source: str, target: str, type: str, flags: int, options: str) -> None:
        assert flags
        assert Path(target).is_dir()
        below = Path(target).relative_to(tmp_path)
        made.append((source, "" if below == Path() else str(below), type, options))

    monkeypatch.setattr(mounts.kernel, "mount", mount)
    mounts.mount_cgroups(tmp_path, hierarchies)
    assert made == expected


def test_what_holds_secrets_is_read_by_root_alone_and_made_once(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    mounts.write_private(file, "machine: {}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        mounts.write_private(file, "")
