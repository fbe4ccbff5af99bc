"""What is shown of an array, and what is wrong with it."""

from dataclasses import replace

from talos.api.definitions import enums_pb2 as enums
from talos.disks.raid.plan import Plan
from talos.disks.raid.provide import ProvisionResult
from talos.disks.raid.specs import WantedArray
from talos.disks.raid.status import make_other_status, make_stopped_status, make_wanted_status

from .memory_mdadm import FAULTY, SPARE, find_member, make_array, make_member

WANTED = WantedArray(name="data")
MEMBERS = (find_member("vdb"), find_member("vdc"))
WHOLE = make_array(make_member("vdb"), make_member("vdc", 1))


def test_a_whole_array() -> None:
    status = make_wanted_status(WANTED, ProvisionResult(plan=Plan(array=WHOLE)), WHOLE, MEMBERS)
    spec = status.spec
    assert status.id == "data"
    assert not status.is_unhealthy
    assert (spec.status, spec.error) == (enums.MD_ARRAY_PHASE_READY, "")
    assert spec.device == "/dev/disk/by-id/md-name-talos:data"
    assert list(spec.members) == ["/dev/vdb", "/dev/vdc"]
    assert spec.uuid == "6a3f1d52:9c044b7e:8f610d2a:7c5e9b13"
    assert (spec.name, spec.metadata, spec.raid_devices) == ("talos:data", "1.0", 2)
    assert (spec.array_state, spec.sync_action) == ("clean", "idle")


def test_a_missing_member_is_named() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1, FAULTY))
    status = make_wanted_status(WANTED, ProvisionResult(plan=Plan(array=array)), array, MEMBERS)
    assert status.is_unhealthy
    assert status.spec.status == enums.MD_ARRAY_PHASE_READY
    assert list(status.spec.members) == ["/dev/vdb"]
    assert status.spec.error == (
        "1 of 2 members are missing, /dev/vdc failed "
        "(connect it again, or a blank disk that the selector means)"
    )


def test_one_that_is_rebuilt_is_not_unhealthy() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1, SPARE), action="recover")
    status = make_wanted_status(WANTED, ProvisionResult(plan=Plan(array=array)), array, MEMBERS)
    assert status.spec.status == enums.MD_ARRAY_PHASE_REBUILDING
    assert (status.is_unhealthy, status.spec.error) == (False, "")


def test_one_that_is_waited_for() -> None:
    status = make_wanted_status(WANTED, ProvisionResult(plan=Plan(waiting="for disks")), None, ())
    assert (status.spec.status, status.spec.error) == (enums.MD_ARRAY_PHASE_WAITING, "for disks")
    assert not status.is_unhealthy


def test_one_that_failed() -> None:
    wanted = replace(WANTED, problems=("/dev/vdd holds xfs",))
    status = make_wanted_status(wanted, ProvisionResult(plan=Plan(), error="mdadm failed"), None, ())
    assert status.spec.status == enums.MD_ARRAY_PHASE_ERROR
    assert status.spec.error == "mdadm failed; /dev/vdd holds xfs"
    assert status.is_unhealthy


def test_those_without_a_document() -> None:
    assert make_other_status(WHOLE, MEMBERS).id == "data"
    assert make_other_status(WHOLE, ()).id == "md0"
    stopped = make_stopped_status(find_member("vdb"), ["/dev/vdb"], "")
    assert (stopped.id, stopped.spec.status) == ("data", enums.MD_ARRAY_PHASE_WAITING)


def test_a_name_that_is_no_part_of_a_path_is_not_used_as_one() -> None:
    for name in ("talos:../../x", "talos:a b", "x" * 80, ".."):
        status = make_other_status(WHOLE, (find_member("vdb", name=name),))
        assert (status.id, status.spec.device) == ("md0", "/dev/md0")
        assert make_stopped_status(find_member("vdb", name=name), [], "").id == WHOLE.uuid
