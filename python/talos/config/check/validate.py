"""Validation of a config beyond its syntax.

report = validate(config, Mode.METAL)
report.errors, report.warnings, report.notes    tuples of Problem
check(config, Mode.CONTAINER)           raises ConfigError, returns the warnings
"""

import enum
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from talos.config.check.across import check_across
from talos.config.check.authorities import find_unusable
from talos.config.check.cluster import check_cluster, find_cluster_warnings
from talos.config.check.documents import check_document
from talos.config.check.encryption import find_unencrypted
from talos.config.check.kubelet import find_ignored
from talos.config.check.kubernetes_across import check_versions
from talos.config.check.legacy import check_conflicts, find_shadowed
from talos.config.check.machine import check_machine, find_deprecated
from talos.config.check.note import Note
from talos.config.check.readers import find_unread, find_unread_in_containers
from talos.config.check.trusted_root import find_trusted_root_warnings
from talos.config.documents.runtime.unattended_install import UnattendedInstallConfig
from talos.config.model import Config
from talos.config.problem import ConfigError, Problem
from talos.config.read.reader import MAX_PROBLEMS


class Mode(enum.Enum):
    """The platform that the config is for."""

    METAL = "metal"
    CLOUD = "cloud"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Findings. Warnings refuse a config only with ``--strict``, notes never.

    ``version_errors`` refuse it on a node of this version only: a client's config may be for another one.
    """

    errors: tuple[Problem, ...] = ()
    version_errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


def validate(config: Config, mode: Mode = Mode.METAL, *, partial: bool = False) -> Report:
    """Run every check.

    A ``partial`` config is one that will be merged with others: only the
    checks of single documents run, not those of documents that it needs beside it.
    """
    found = itertools.islice(_errors(config, mode, partial=partial), MAX_PROBLEMS)
    errors = [note.problem(config) for note in found]
    versions = [note.problem(config) for note in (() if partial else check_versions(config))]
    warnings = [note.problem(config) for note in _warnings(config)]
    found = itertools.islice(
        itertools.chain(
            find_unencrypted(config),
            find_unusable(config),
            find_unread(config),
            find_unread_in_containers(config) if mode is Mode.CONTAINER else (),
            find_ignored(config),
            find_shadowed(config),
        ),
        MAX_PROBLEMS,
    )
    notes = tuple(note.problem(config) for note in found)
    return Report(
        errors=tuple(_sorted(errors)),
        version_errors=tuple(_sorted(versions)),
        warnings=tuple(_sorted(warnings)),
        notes=notes,
    )


def check(config: Config, mode: Mode = Mode.METAL, *, partial: bool = False) -> tuple[Problem, ...]:
    """Refuse a config with errors on a node; returns the warnings and notes.

    ConfigError: with all errors.
    """
    report = validate(config, mode, partial=partial)
    if report.errors or report.version_errors:
        raise ConfigError(_sorted([*report.errors, *report.version_errors]))
    return (*report.warnings, *report.notes)


def _errors(config: Config, mode: Mode, *, partial: bool) -> Iterator[Note]:
    main = config.main
    if main is not None:
        yield from check_machine(config, main, installs=mode is Mode.METAL)
        yield from check_cluster(config, main)
        yield from check_conflicts(config)
    yield from _check_install(config)
    for document in config.documents:
        yield from check_document(document)
    if not partial:
        yield from check_across(config, in_container=mode is Mode.CONTAINER)


def _check_install(config: Config) -> Iterator[Note]:
    machine, document = config.machine, config.find(UnattendedInstallConfig)
    if machine and machine.install and document:
        hint = "keep UnattendedInstallConfig"
        yield Note("is also set by UnattendedInstallConfig", config.main, "machine.install", hint=hint)


def _warnings(config: Config) -> Iterator[Note]:
    if config.main is not None:
        yield from find_deprecated(config.main)
        yield from find_cluster_warnings(config.main)
    yield from find_trusted_root_warnings(config)


def _sorted(problems: list[Problem]) -> list[Problem]:
    key: Callable[[Problem], tuple[int, int]] = lambda problem: (  # noqa: E731 - typed in place
        (problem.mark.line, problem.mark.column) if problem.mark else (0, 0)
    )
    return sorted(problems, key=key)
