"""What a release can do that a node may have put to use, by name: kinds of documents and extensions.

A kind counts when nodes of this version act on its documents: one that has no effect is not used.
Extensions are in an image or are not, so their names are given.
"""

from collections.abc import Iterable

from talos.config.check.readers import UNREAD_KINDS
from talos.config.documents.registry import MODULES
from talos.config.model import Config

SLOTS = "ab-slots"
"""Two slots, of which one is tried: every node uses them, since an upgrade does."""
KIND, EXTENSION = "config.", "extension."
"""Before the name of a kind or of an extension."""
NEXT_KEYS = "next-keys"
"""Volumes are opened by keys that the TPM has sealed for a start to come."""
TRIAL_CHECKS = f"{KIND}TrialCheckConfig"
"""A config's own checks of a trial, which the record of an upgrade names."""
_READ = frozenset(MODULES) - UNREAD_KINDS


def list_features(extensions: Iterable[str] = ()) -> tuple[str, ...]:
    """What a release of this version has."""
    return (SLOTS, *_name(_READ, extensions), NEXT_KEYS)


def find_used(config: Config | None, extensions: Iterable[str] = ()) -> tuple[str, ...]:
    """What a node uses that has this config and these extensions."""
    kinds = {document.kind for document in config.documents} if config else set[str]()
    return (SLOTS, *_name(kinds & _READ, extensions))


def _name(kinds: Iterable[str], extensions: Iterable[str]) -> Iterable[str]:
    yield from (f"{KIND}{name}" for name in sorted(kinds))
    yield from (f"{EXTENSION}{name}" for name in sorted(set(extensions)))
