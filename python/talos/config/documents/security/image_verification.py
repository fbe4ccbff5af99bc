"""``ImageVerificationConfig``: which signatures container images must have."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageKeylessVerifier(Section):
    """Signed without a key, by an identity that Sigstore has certified and logged."""

    issuer: str | None = setting("issuer of the identity, exactly")
    subject: str | None = setting("mail address or URI that signed, exactly")
    subject_regex: str | None = setting("pattern that is found in it; ^ and $ bind it to both ends")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePublicKeyVerifier(Section):
    """Signed with a key."""

    certificate: str | None = setting("public key or certificate in PEM")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageVerificationRule(Section):
    """Rules, the first that matches counts."""

    image: str | None = setting("pattern of images; * matches anything")
    skip: bool | None = setting("do not verify (default: false)")
    deny: bool | None = setting("refuse the image (default: false)")
    keyless: ImageKeylessVerifier | None = setting("signed without a key, by identity")
    public_key: ImagePublicKeyVerifier | None = setting("signed with a key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageVerificationConfig(Document):
    """Which signatures container images must have."""

    kind: ClassVar[str] = "ImageVerificationConfig"

    rules: tuple[ImageVerificationRule, ...] | None = setting(
        "rules, the first that matches counts", merge=Merge.REPLACE_BY_KEY, merge_key="image"
    )
