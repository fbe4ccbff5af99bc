"""The value of PCR 7 at starts to come, against what firmware measures then."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from tests.unit.system.tpm import logs

from talos.secureboot.variables import make_signature_list
from talos.system.tpm.event_log import parse_log
from talos.upgrade.slots.systemd_boot.pcr7_model import Chain, Pcr7Model, make_model, read_contents

from .test_databases import BY, OWNER, Databases, make_other, refuse, trust

OTHER = make_other().certificate


def find_entry(certificate: x509.Certificate, by: UUID = BY) -> bytes:
    """The entry of db for a certificate: behind the header of its list."""
    return make_signature_list([certificate], by)[28:]


OURS, THEIRS = find_entry(OWNER), find_entry(OTHER)
DB = make_signature_list([OTHER, OWNER], BY)
BY_OWNER, BY_OTHER = [OWNER], [OTHER]


def make(measured: Sequence[logs.Measured], *running: Sequence[x509.Certificate]) -> Pcr7Model:
    events = [event for event in parse_log(logs.pack_log(measured)) if event.pcr == 7]
    return make_model(events, running)


@pytest.mark.parametrize(
    ("before", "now", "then", "after"),
    [
        ([OURS], [BY_OWNER, BY_OWNER], [BY_OWNER, BY_OWNER], [OURS]),
        ([OURS, THEIRS], [BY_OWNER, BY_OTHER], [BY_OWNER, BY_OWNER], [OURS]),
        ([OURS, THEIRS], [BY_OWNER, BY_OTHER], [BY_OTHER, BY_OWNER], [THEIRS, OURS]),
        ([b"a card", OURS], [BY_OWNER, BY_OWNER], [BY_OTHER, BY_OTHER], [b"a card", THEIRS]),
    ],
)
def test_programs_of_other_certificates(
    before: Sequence[bytes], now: Chain, then: Chain, after: Sequence[bytes]
) -> None:
    """Each certificate is measured once; what was verified before these programs stays."""
    found = make(logs.measure_secure_boot(DB, b"", *before), *now)
    expected = logs.replay(logs.measure_secure_boot(DB, b"", *after))
    assert expected in found.find_values({"db": DB, "dbx": b""}, then)


def test_a_card_may_have_been_verified_by_the_same_certificate() -> None:
    """Then there are two values; none where all programs stay the owner's."""
    found = make(logs.measure_secure_boot(DB, b"", OURS), BY_OWNER, BY_OWNER)
    values = [logs.replay(logs.measure_secure_boot(DB, b"", *after)) for after in ([THEIRS], [OURS, THEIRS])]
    contents = {"db": DB, "dbx": b""}
    assert found.find_values(contents, [BY_OTHER, BY_OTHER]) == values
    assert len(found.find_values(contents, [BY_OWNER, BY_OWNER])) == 1


def test_databases_that_are_added_to(tmp_path: Path) -> None:
    databases = Databases(tmp_path, "databases")
    before = make_signature_list([OWNER], BY)
    databases.make("db", before)
    found = make(logs.measure_secure_boot(before, b"", OURS), BY_OWNER, BY_OWNER)
    contents = read_contents(databases, {"db": trust(OWNER, OTHER), "dbx": refuse(OTHER)})
    db, dbx = make_signature_list([OWNER, OTHER], BY), make_signature_list([OTHER], BY)
    assert contents == {"db": db, "dbx": dbx}, "what is there is not added again"
    expected = logs.replay(logs.measure_secure_boot(db, dbx, OURS, THEIRS))
    assert found.find_values(contents, [BY_OWNER, BY_OTHER]) == [expected]


@pytest.mark.parametrize(
    ("measured", "running", "reason"),
    [
        (logs.measure_secure_boot(DB, b"", THEIRS), [BY_OWNER, BY_OWNER], "the log has other certificates"),
        (logs.measure_secure_boot(DB, b""), [BY_OWNER, BY_OWNER], "the log has other certificates"),
        (logs.measure_secure_boot(DB, b"", OURS), [BY_OWNER, []], "db has 0 certificates by which"),
        (logs.measure_secure_boot(DB, b"", OURS), [[OWNER, OTHER], BY_OWNER], "db has 2 certificates by"),
        (
            logs.measure_secure_boot(DB + make_signature_list([OWNER], UUID(int=2)), b"", OURS),
            [BY_OWNER, BY_OWNER],
            "db has 2 certificates by which a program may be verified",
        ),
        (logs.measure_secure_boot(DB, b"", OURS)[:4], [BY_OWNER, BY_OWNER], "the log has 0 events of dbx"),
        (
            [*logs.measure_secure_boot(DB, b"", OURS), *logs.measure_secure_boot(DB, b"")],
            [BY_OWNER, BY_OWNER],
            "the log has 2 events of db",
        ),
    ],
)
def test_events_that_are_not_explained(
    measured: Sequence[logs.Measured], running: Chain, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        make(measured, *running)


def test_an_event_whose_data_were_not_measured() -> None:
    events = parse_log(logs.pack_log(logs.measure_secure_boot(DB, b"", OURS)))
    changed = parse_log(logs.pack_log(logs.measure_secure_boot(DB, b"revoked", OURS)))
    mixed = [replace(event, data=other.data) for event, other in zip(events, changed, strict=True)]
    with pytest.raises(ValueError, match="the log's event of dbx has another digest than its data"):
        make_model([event for event in mixed if event.pcr == 7], [BY_OWNER, BY_OWNER])
