"""A repository is followed, and every attack that TUF's specification names is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from tests.harness.sigstore import Sigstore
from tests.harness.tuf import NOW, Repository, describe_key, make_key, sign

from talos.machined.tuf.metadata import Role
from talos.machined.tuf.program import OF_SIGSTORE
from talos.machined.tuf.refresh import MAX_LENGTHS, MAX_ROOTS, MAX_TARGET, Fetch, choose_root, refresh
from talos.machined.tuf.trusted import TrustedMetadata
from talos.system.errors import UserError

OLD, NEW = (json.dumps(Sigstore().trusted_root()) for _ in range(2))
ROOT_14 = Path(__file__).parents[4] / "tests/data/tuf/14.root.json"
LATER = NOW + timedelta(days=1)


@pytest.fixture
def repository() -> Repository:
    return Repository(OLD.encode())


def run(trusted: TrustedMetadata, fetch: Fetch) -> TrustedMetadata:
    for step in refresh(trusted, fetch, NOW):
        trusted = step
    return trusted


def start(repository: Repository) -> TrustedMetadata:
    """What is trusted after a first refresh."""
    return run(TrustedMetadata(root=repository.root), repository.fetch)


def fail(trusted: TrustedMetadata, repository: Repository) -> tuple[TrustedMetadata, str]:
    """What is trusted after a refresh that fails, and its reason."""
    steps = [trusted]
    with pytest.raises(UserError) as caught:
        steps.extend(refresh(trusted, repository.fetch, NOW))
    step = steps[-1]
    assert (step.trusted_root, step.version, step.refreshed) == (
        trusted.trusted_root,
        trusted.version,
        trusted.refreshed,
    )
    return step, str(caught.value)


def test_a_first_refresh(repository: Repository) -> None:
    trusted = start(repository)
    assert (trusted.trusted_root, trusted.version) == (OLD, 1)
    assert trusted.refreshed == int(NOW.timestamp())


def test_nothing_new_is_two_requests(repository: Repository) -> None:
    trusted = start(repository)
    repository.requests.clear()
    assert run(trusted, repository.fetch) == trusted
    assert repository.requests == ["2.root.json", "timestamp.json"]


def test_a_new_target(repository: Repository) -> None:
    trusted = start(repository)
    repository.publish(NEW.encode())
    trusted = run(trusted, repository.fetch)
    assert (trusted.trusted_root, trusted.version) == (NEW, 2)


def test_keys_are_rotated_by_the_old_and_the_new_ones(repository: Repository) -> None:
    trusted = start(repository)
    for _ in range(2):
        before = repository.keys["root"]
        repository.keys = {
            role: [make_key(), make_key(), ed25519.Ed25519PrivateKey.generate()] for role in repository.keys
        }
        repository.rotate(before[:2])
    repository.publish(NEW.encode())
    trusted = run(trusted, repository.fetch)
    assert (trusted.trusted_root, trusted.root) == (NEW, repository.root)


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 1)])
def test_a_root_needs_the_threshold_of_both(repository: Repository, old: int, new: int) -> None:
    trusted = start(repository)
    before, own = repository.keys["root"], [make_key() for _ in range(3)]
    repository.keys["root"] = own
    repository.rotate()
    signed = json.loads(repository.root)["signed"]
    repository.files["2.root.json"] = sign(signed, [*before[:old], *own[:new]])
    step, reason = fail(trusted, repository)
    assert step == trusted
    assert "root.json, version 2: too few keys of version" in reason


def test_a_key_counts_once(repository: Repository) -> None:
    trusted = start(repository)
    key = repository.keys["root"][0]
    repository.rotate()
    repository.files["2.root.json"] = sign(json.loads(repository.root)["signed"], [key, key])
    assert "too few keys" in fail(trusted, repository)[1]


def test_a_key_by_two_ids_counts_once(repository: Repository) -> None:
    repository.rotate()
    signed = json.loads(repository.root)["signed"]
    key = repository.keys["root"][0]
    signed["keys"]["alias"] = describe_key(key)
    signed["roles"]["root"]["keyids"].append("alias")
    document = json.loads(sign(signed, [key, *repository.keys["root"][:1]]))
    document["signatures"][1]["keyid"] = "alias"
    repository.files["2.root.json"] = json.dumps(document).encode()
    assert (
        "too few keys" in fail(TrustedMetadata(root=repository.files["1.root.json"].decode()), repository)[1]
    )


def test_keys_that_a_root_has_no_more_don_t_count(repository: Repository) -> None:
    trusted = start(repository)
    old = repository.keys["targets"]
    repository.keys["targets"] = [make_key()]
    repository.rotate()
    repository.keys["targets"] = old
    repository.publish(NEW.encode())
    step, reason = fail(trusted, repository)
    assert "targets.json, version 2: too few keys of version 2 of the root have signed it" in reason
    assert json.loads(step.root)["signed"]["version"] == 2, "the new root is kept"


def test_the_next_root_has_the_next_version(repository: Repository) -> None:
    trusted = start(repository)
    repository.versions["root"] = 2
    repository.rotate()
    repository.files["2.root.json"] = repository.files.pop("3.root.json")
    assert "root.json, version 3: it stands where version 2 has to" in fail(trusted, repository)[1]


def test_a_chain_of_roots_has_an_end(repository: Repository) -> None:
    trusted = start(repository)
    for _ in range(MAX_ROOTS + 5):
        repository.rotate()
    repository.requests.clear()
    assert json.loads(run(trusted, repository.fetch).root)["signed"]["version"] == 1 + MAX_ROOTS
    assert len([name for name in repository.requests if "root.json" in name]) == MAX_ROOTS


def test_only_the_last_root_must_not_have_expired(repository: Repository) -> None:
    trusted = start(repository)
    repository.expires["root"] = NOW
    repository.rotate()
    assert "root.json, version 2: it expired at 2026-03-01T12:00:00Z" in fail(trusted, repository)[1]
    repository.expires["root"] = LATER
    repository.rotate()
    assert run(trusted, repository.fetch).root == repository.root


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets"])
def test_what_has_expired_is_refused(repository: Repository, role: str) -> None:
    trusted = start(repository)
    repository.expires[role] = NOW
    repository.publish(NEW.encode())
    assert f"{role}.json, version 2: it expired" in fail(trusted, repository)[1]


def test_a_repository_that_is_frozen_is_noticed(repository: Repository) -> None:
    """Nothing new comes: then what was kept expires."""
    trusted = start(repository)
    with pytest.raises(UserError, match=r"timestamp.json, version 1: it expired"):
        list(refresh(trusted, repository.fetch, NOW + timedelta(days=7)))


def test_an_older_timestamp_is_refused(repository: Repository) -> None:
    old = repository.files["timestamp.json"]
    repository.publish(NEW.encode())
    trusted = start(repository)
    repository.files["timestamp.json"] = old
    assert "timestamp.json: version 1 is older than 2" in fail(trusted, repository)[1]


def test_an_older_snapshot_is_refused(repository: Repository) -> None:
    repository.publish(NEW.encode())
    trusted = start(repository)
    repository.versions["snapshot"] = 1
    repository.stamp()
    assert "snapshot.json: version 1 is older than 2" in fail(trusted, repository)[1]


def test_older_targets_are_refused(repository: Repository) -> None:
    repository.publish(NEW.encode())
    trusted = start(repository)
    repository.versions["targets"] = 1
    repository.list_targets()
    assert "targets.json: version 1 is older than 2" in fail(trusted, repository)[1]


def test_files_must_not_vanish_from_the_snapshot(repository: Repository) -> None:
    repository.write("snapshot", {"meta": {"a.json": {"version": 3}, "targets.json": {"version": 1}}})
    repository.stamp()
    trusted = start(repository)
    repository.list_targets()
    assert "a.json" in fail(trusted, repository)[1]


def test_versions_begin_anew_with_new_keys(repository: Repository) -> None:
    """Who had the keys may have made versions that nothing can follow."""
    for role in ("snapshot", "timestamp"):
        repository.versions[role] = 2**40
    repository.publish(OLD.encode())
    trusted = start(repository)
    repository.keys |= {role: [make_key()] for role in ("snapshot", "timestamp")}
    repository.rotate()
    for role in ("snapshot", "timestamp"):
        repository.versions[role] = 3
    repository.publish(NEW.encode())
    assert run(trusted, repository.fetch).trusted_root == NEW


@pytest.mark.parametrize("role", ["snapshot", "targets"])
def test_files_of_different_states_are_refused(repository: Repository, role: str) -> None:
    trusted = start(repository)
    repository.publish(NEW.encode())
    repository.files[f"2.{role}.json"] = repository.files[f"1.{role}.json"]
    assert f"2.{role}.json: " in fail(trusted, repository)[1]


def _lengthen(data: bytes) -> bytes:
    return data + b" "


def _flip(data: bytes) -> bytes:
    return data.replace(b"tlogs", b"tlogz")


@pytest.mark.parametrize("change", [_lengthen, _flip])
def test_another_target_is_refused(repository: Repository, change: Callable[[bytes], bytes]) -> None:
    trusted = start(repository)
    repository.publish(NEW.encode())
    name = next(name for name, data in repository.files.items() if data == NEW.encode())
    repository.files[name] = change(repository.files[name])
    with pytest.raises(UserError, match="it is not the file that is listed: length or digest differ"):
        run(trusted, lambda name, _: repository.files.get(name))


def test_a_changed_signature_is_refused(repository: Repository) -> None:
    document = json.loads(repository.files["timestamp.json"])
    document["signed"]["version"] = 7
    repository.files["timestamp.json"] = json.dumps(document).encode()
    assert (
        "timestamp.json, version 7: too few keys"
        in fail(TrustedMetadata(root=repository.root), repository)[1]
    )


def test_bounds_go_to_what_fetches(repository: Repository) -> None:
    bounds: dict[str, int] = {}

    def fetch(name: str, bound: int) -> bytes | None:
        bounds[name.rpartition(".")[0].rpartition(".")[2]] = bound
        return repository.files.get(name)

    run(TrustedMetadata(root=repository.root), fetch)
    targets = len(repository.files["1.targets.json"])
    assert bounds == {
        "root": MAX_LENGTHS[Role.ROOT],
        "timestamp": MAX_LENGTHS[Role.TIMESTAMP],
        "snapshot": MAX_LENGTHS[Role.SNAPSHOT],
        "targets": targets,
        "trusted_root": len(OLD),
    }


def test_a_listed_length_has_a_bound(repository: Repository) -> None:
    repository.publish(b" " * (MAX_TARGET + 1))
    requests = len(repository.requests)
    assert f"{MAX_TARGET + 1} bytes are listed" in fail(TrustedMetadata(root=repository.root), repository)[1]
    assert not any("targets/" in name for name in repository.requests[requests:])


@pytest.mark.parametrize("target", [b"{}", b"\xff", b"[" * 10_000])
def test_what_this_version_can_t_read_does_not_take_its_place(repository: Repository, target: bytes) -> None:
    trusted = start(repository)
    repository.publish(target)
    fail(trusted, repository)
    repository.publish(NEW.encode())
    assert run(trusted, repository.fetch).trusted_root == NEW


def test_targets_without_it_are_refused(repository: Repository) -> None:
    repository.write("targets", {"targets": {"trusted_root.json": {"length": 3, "hashes": {"md5": "x"}}}})
    repository.list_targets()
    assert (
        "they don't list trusted_root.json with its"
        in fail(TrustedMetadata(root=repository.root), repository)[1]
    )


@pytest.mark.parametrize("name", ["timestamp.json", "1.snapshot.json", "1.targets.json"])
def test_missing_files(repository: Repository, name: str) -> None:
    del repository.files[name]
    assert (
        fail(TrustedMetadata(root=repository.root), repository)[1]
        == f"{name}: the repository does not have it"
    )


def test_a_refresh_goes_on_where_the_last_one_failed(repository: Repository) -> None:
    trusted = start(repository)
    repository.publish(NEW.encode())
    lost = {name: data for name, data in repository.files.items() if data == NEW.encode()}
    for name in lost:
        del repository.files[name]
    step = fail(trusted, repository)[0]
    repository.files |= lost
    repository.requests.clear()
    assert run(step, repository.fetch).trusted_root == NEW
    assert repository.requests == ["2.root.json", "timestamp.json", *lost]


def test_what_was_damaged_on_the_disk_is_fetched_anew(repository: Repository) -> None:
    damaged = replace(start(repository), timestamp="{", snapshot="", targets="[]", trusted_root="x")
    assert run(damaged, repository.fetch) == start(repository)


def _with(document: bytes, **values: object) -> bytes:
    content = json.loads(document)
    content["signed"] |= values
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"_type": "snapshot"}, "it is not what timestamp has"),
        ({"spec_version": "2.0"}, "it is not what timestamp has"),
        ({"version": 0}, "version is no number above 0"),
        ({"version": True}, "version is no number above 0"),
        ({"version": "1"}, "version is no number above 0"),
        ({"version": 1.5}, "it is no JSON, or has what can't be signed"),
        ({"expires": "2026-03-01"}, "expires is no time"),
        ({"expires": "2026-13-01T00:00:00Z"}, "expires is no time"),
        ({"expires": "2026-03-01T00:00:00+01:00"}, "expires is no time"),
        ({"expires": 3}, "it has no text 'expires'"),
        ({"x": "\ud800"}, "it is no JSON, or has what can't be signed"),
    ],
)
def test_forms_are_strict(repository: Repository, values: dict[str, object], text: str) -> None:
    repository.files["timestamp.json"] = _with(repository.files["timestamp.json"], **values)
    assert text in fail(TrustedMetadata(root=repository.root), repository)[1]


def test_signatures_that_are_none_and_keys_of_other_kinds_don_t_count(repository: Repository) -> None:
    repository.rotate()
    document = json.loads(repository.root)
    document["signatures"][0]["sig"] = ""
    document["signatures"] += [{"keyid": 3}, 7, {"keyid": document["signatures"][1]["keyid"], "sig": "xy"}]
    repository.files["2.root.json"] = json.dumps(document).encode()
    assert (
        run(TrustedMetadata(root=repository.files["1.root.json"].decode()), repository.fetch).trusted_root
        == OLD
    )
    signed = document["signed"]
    for key in signed["keys"].values():
        key["scheme"] = "rsassa-pss-sha256"
    repository.files["2.root.json"] = sign(signed, repository.keys["root"])
    first = TrustedMetadata(root=repository.files["1.root.json"].decode())
    assert "version 2: too few keys of version 2" in fail(first, repository)[1]


def test_the_newer_root_is_chosen(repository: Repository) -> None:
    repository.rotate()
    one, two = (repository.files[f"{version}.root.json"].decode() for version in (1, 2))
    assert [choose_root(one, two), choose_root(two, one), choose_root("", one)] == [two, two, one]


def test_sigstore_s_own_roots() -> None:
    """Version 14 and 15 are signed by other people each, who had not all signed the first of them."""
    old, new = ROOT_14.read_text(encoding="utf-8"), OF_SIGSTORE.read_text(encoding="utf-8")
    files, steps = {"15.root.json": new.encode()}, list[TrustedMetadata]()
    with pytest.raises(UserError, match=r"timestamp.json: the repository does not have it"):
        steps.extend(refresh(TrustedMetadata(root=old), lambda name, _: files.get(name), NOW))
    assert [step.root for step in steps] == [new]
    files = {"15.root.json": new.replace('"threshold": 3', '"threshold": 2').encode()}
    with pytest.raises(UserError, match=r"root.json, version 15: too few keys of version 14"):
        list(refresh(TrustedMetadata(root=old), lambda name, _: files.get(name), NOW))
