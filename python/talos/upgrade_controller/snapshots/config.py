"""What a policy settles about snapshots: how often, for whom, where to."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from talos.config.schema import REQUIRED, Section, setting
from talos.config.values import Duration, Url
from talos.system.errors import UserError
from talos.talosctl.output.age import check_recipients
from talos.upgrade_controller.snapshots.destination import Destination
from talos.upgrade_controller.snapshots.folder import Folder
from talos.upgrade_controller.snapshots.s3 import Bucket
from talos.upgrade_controller.snapshots.sigv4 import AccessKey, parse_access_key

MIN_INTERVAL = 60
"""Seconds between two snapshots, and for one."""
MAX_KEEP = 500
"""Half of the names that a store lists at a time."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}", re.ASCII)
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_PREFIX = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._=-]{0,100}/?){0,8}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Section(Section):
    """A bucket."""

    endpoint: Url = setting("the store's URL", default=REQUIRED, schemes=("http", "https"))
    region: str = setting("the bucket's region", default="us-east-1")
    bucket: str = setting("its name", default=REQUIRED)
    prefix: str = setting("what the names of this cluster's snapshots begin with, as demo/", default="")
    credentials: str = setting(
        "the store's user: a file as ~/.aws/credentials, in a resource the name of a Secret that has it "
        "under the key credentials",
        default=REQUIRED,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsSection(Section):
    """Encrypted snapshots of etcd, away from the cluster."""

    interval: Duration = setting("between two snapshots", default=Duration("6h0m0s"))
    timeout: Duration = setting("for a whole snapshot", default=Duration("1h0m0s"))
    keep: int = setting("how many stay, 0 for all", default=28, bounds=(0, MAX_KEEP))
    recipients: tuple[str, ...] = setting(
        "public keys that can decrypt them: age1…, ssh-ed25519 …", default=REQUIRED
    )
    folder: str = setting("a folder for them, such as a volume", default="")
    s3: S3Section | None = setting("or a bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """The same, checked; ``key`` is that of the bucket."""

    section: SnapshotsSection
    where: str
    folder: Path = Path()
    key: AccessKey | None = None


def find_place(section: SnapshotsSection) -> tuple[str, ...]:
    """Where they go, as a key: two sections with the same one would remove each other's snapshots."""
    if section.s3 is None:
        return (section.folder,)
    return (section.s3.endpoint.rstrip("/"), section.s3.bucket, section.s3.prefix)


def check_snapshots(section: SnapshotsSection | None, where: str) -> Snapshots | None:
    """Check what the declaration of the settings does not show; UserError."""
    if section is None:
        return None
    if not section.recipients:
        raise UserError("is empty", where=f"{where}.recipients", hint="name a public key that you keep")
    for index, text in enumerate(section.recipients):
        check_recipients([text], where=f"{where}.recipients[{index}]")
    for name, value in (("interval", section.interval), ("timeout", section.timeout)):
        if value.seconds < MIN_INTERVAL:
            text = f"'{value}' is less than {MIN_INTERVAL} s"
            raise UserError(text, where=f"{where}.{name}", hint="write it like 6h")
    if bool(section.folder) == bool(section.s3):
        raise UserError("has no folder or s3, or both", where=where, hint="name one place for them")
    if section.s3:
        _check_bucket(section.s3, f"{where}.s3")
    return Snapshots(section=section, where=where, folder=Path(section.folder))


def _check_bucket(found: S3Section, where: str) -> None:
    parts = urlsplit(found.endpoint)
    if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        hint = "write it like https://s3.eu-central-1.amazonaws.com"
        raise UserError("has more than a host", where=f"{where}.endpoint", hint=hint)
    for name, value, form in (
        ("bucket", found.bucket, _BUCKET),
        ("region", found.region, _REGION),
        ("prefix", found.prefix, _PREFIX),
    ):
        if not form.fullmatch(value):
            hint = "letters, digits, dots and dashes; slashes within a prefix"
            raise UserError(f"{value!r} can't be one", where=f"{where}.{name}", hint=hint)


def load_key(snapshots: Snapshots, read: Callable[[str], bytes]) -> Snapshots:
    """With the key of the bucket, which ``read`` finds by the name in the section; UserError."""
    if snapshots.section.s3 is None:
        return snapshots
    name = snapshots.section.s3.credentials
    where = f"{snapshots.where}.s3.credentials: {name}"
    return replace(snapshots, key=parse_access_key(read(name), where=where))


def open_destination(snapshots: Snapshots) -> Destination:
    """Where they go."""
    found = snapshots.section.s3
    if found is None:
        return Folder(snapshots.folder, where=f"{snapshots.where}.folder: {snapshots.folder}")
    assert snapshots.key is not None
    return Bucket(
        endpoint=found.endpoint.rstrip("/"),
        region=found.region,
        bucket=found.bucket,
        prefix=found.prefix,
        key=snapshots.key,
        where=f"{snapshots.where}.s3: {found.bucket}",
    )
