"""The rules of ``ImageVerificationConfig``: which images must be signed, and by whom."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from talos.config.documents.security.image_verification import ImageKeylessVerifier, ImageVerificationConfig
from talos.config.model import Config
from talos.images.reference import DEFAULT_REGISTRY, HUB, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``key`` is a public key in PEM, which comes before ``keyless``, the identity of a signer."""

    number: int
    pattern: str
    skip: bool = False
    deny: bool = False
    key: str = ""
    keyless: ImageKeylessVerifier | None = None

    @property
    def id(self) -> str:
        """The id of its resource, by which answers name it."""
        return f"{self.number:04d}"


def make_rules(config: Config | None) -> tuple[Rule, ...]:
    """The rules of a config, in their order."""
    found = (rule for one in _find_documents(config) for rule in one.rules or ())
    return tuple(
        Rule(
            number=number,
            pattern=rule.image or "",
            skip=bool(rule.skip),
            deny=bool(rule.deny),
            keyless=rule.keyless,
            key=(rule.public_key.certificate or "") if rule.public_key else "",
        )
        for number, rule in enumerate(found)
    )


def _find_documents(config: Config | None) -> Iterable[ImageVerificationConfig]:
    return config.find_all(ImageVerificationConfig) if config else ()


def find_rule(rules: Iterable[Rule], reference: Reference) -> Rule | None:
    """The first rule whose pattern matches registry and repository; tag, digest and case don't count.

    A pattern may have either name of docker.io.
    """
    names = [f"{reference.registry}/{reference.repository}"]
    if reference.registry == DEFAULT_REGISTRY:
        names.append(f"{HUB}/{reference.repository}")
    return next((rule for rule in rules if any(_matches(rule.pattern, name) for name in names)), None)


def _matches(pattern: str, name: str) -> bool:
    """``*`` stands for anything, slashes included; all else for itself. Names of hosts have no case."""
    parts = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(parts), name, re.DOTALL | re.IGNORECASE) is not None
