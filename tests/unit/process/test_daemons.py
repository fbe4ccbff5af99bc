"""The table of daemons against everything that can't be derived from it."""

import tomllib
from pathlib import Path

import pytest

from talos.api.methods import methods
from talos.apid import peers
from talos.machined.services import zygote
from talos.machined.services.spec import Fork
from talos.machined.services.table import SERVICES
from talos.process.daemons import APID, BY_NAME, DAEMONS, EARLY, LATER, TRUSTD
from talos.routerd.routes import OWNERS
from talos.routerd.routes import SERVICES as API_SERVICES
from talos.trustd import server

REPOSITORY = Path(__file__).parents[3]
FILES = REPOSITORY / "modules/rootfs/files/etc"
NOT_OURS = {"root", "etcd", "nobody"}
"""Users of the image that are no daemons of ours."""


def read_accounts(name: str) -> dict[str, list[str]]:
    lines = (FILES / name).read_text(encoding="utf-8").splitlines()
    return {line.split(":")[0]: line.split(":")[1:] for line in lines}


def test_every_daemon_has_its_user_and_its_group() -> None:
    users, groups = read_accounts("passwd"), read_accounts("group")
    assert users.keys() - NOT_OURS == BY_NAME.keys()
    for daemon in DAEMONS:
        assert users[daemon.name][1:3] == [str(daemon.uid)] * 2
        assert groups[daemon.name][1:] == [str(daemon.uid), ""]
    assert len({daemon.uid for daemon in DAEMONS}) == len(DAEMONS)


def test_every_daemon_has_its_folder() -> None:
    layers = tomllib.loads((REPOSITORY / "python/layers.toml").read_text(encoding="utf-8"))
    layer = layers["machined"]["layer"]
    folders = {name for name, row in layers.items() if row["layer"] == layer and "node" in row["on"]}
    assert folders == {"machined", *BY_NAME}
    for daemon in DAEMONS:
        assert (REPOSITORY / "python" / daemon.module.replace(".", "/")).with_suffix(".py").exists()


@pytest.mark.parametrize("has_devices", [True, False])
def test_services_and_zygote_know_every_daemon(monkeypatch: pytest.MonkeyPatch, has_devices: bool) -> None:
    monkeypatch.setattr(zygote, "is_container", lambda: not has_devices)
    modules = zygote.find_modules()
    forked = {spec.id: spec.start for spec in SERVICES if isinstance(spec.start, Fork)}
    assert forked.keys() == BY_NAME.keys()
    for daemon in DAEMONS:
        assert (daemon.module in modules) == (has_devices or not daemon.needs_devices)
        assert (forked[daemon.name].uid, forked[daemon.name].module) == (daemon.uid, daemon.module)


def test_ports_are_those_that_the_daemons_open() -> None:
    assert (APID.port, TRUSTD.port) == (peers.PORT, server.PORT)


def test_what_daemons_serve_is_part_of_the_api() -> None:
    assert {owner.name for owner in OWNERS} == {"machined", "timed", "clusterd", "dnsd", "kubed"}
    for daemon in DAEMONS:
        assert set(daemon.api) <= API_SERVICES.keys()
        assert set(daemon.methods) <= methods().keys()


def test_what_starts_without_a_config_is_served_without_one() -> None:
    for owner in OWNERS[1:]:
        assert owner.needs_config is (owner.name not in (*EARLY, *LATER))
    for name in (*EARLY, *LATER):
        daemon = BY_NAME[name]
        assert not daemon.on_demand
        assert {*daemon.depends} <= {*EARLY, *LATER, "machined", "containerd"}
