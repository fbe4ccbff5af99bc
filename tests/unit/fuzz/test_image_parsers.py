"""What registries and archives send is either understood or refused in one line, and soon."""

import gzip
import json
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.harness.registry import Store, make_archive
from tests.harness.rekor2 import Rekor2
from tests.harness.sigstore import ISSUER, NOW, SUBJECT, Sigstore
from tests.unit.machined.containerd.verify.cosign import make_keyless_bundle, make_rekor2_bundle
from tests.unit.system.zstd import pack

from talos.images.manifest import find_form, parse_config, parse_index, parse_manifest
from talos.images.reference import parse_reference
from talos.images.registry.auth import parse_challenge, parse_token
from talos.images.registry.hosts import RegistryError
from talos.images.registry.http import find_target
from talos.machined.containerd.archive import find_named, parse_header
from talos.machined.containerd.layer import ERRORS, unpack_layer
from talos.machined.containerd.toml import format_toml, parse_toml
from talos.machined.containerd.verify.certificate import (
    check_certificate,
    find_issuer,
    find_names,
)
from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.request import Request
from talos.machined.containerd.verify.signature import verify_signature
from talos.machined.containerd.verify.trusted_root import parse_trusted_root
from talos.system.timestamp import TimestampError, verify_timestamp

from .trial import Parser, check_parser

DIGEST = f"sha256:{'0' * 64}"
PART: dict[str, Any] = {"digest": DIGEST, "size": 1, "mediaType": "application/vnd.oci.image.layer.v1.tar"}
MANIFEST = {"schemaVersion": 2, "config": PART, "layers": [PART, PART]}
INDEX = {"manifests": [{**PART, "platform": {"os": "linux", "architecture": "amd64"}}]}
CONFIG = {"rootfs": {"diff_ids": [DIGEST]}, "config": {"Env": ["A=B"], "Cmd": ["x"], "User": "1:2"}}
NAMED = {"manifests": [{**PART, "annotations": {"io.containerd.image.name": "example.org/a:1"}}]}


SIGSTORE, REKOR2 = Sigstore(), Rekor2()
AUTHORITY = REKOR2.authority
ROOT = REKOR2.trust(SIGSTORE.trusted_root())
SIGNED = make_keyless_bundle(SIGSTORE, SIGSTORE.certify(), DIGEST)
SIGNED2 = make_rekor2_bundle(REKOR2, SIGSTORE.certify(), DIGEST)
REQUEST = Request(
    image=b"{}", data=b"", where="x", issuer=ISSUER, subject=SUBJECT, trusted_root=json.dumps(ROOT)
)


def _verify(data: bytes) -> None:
    verify_signature(replace(REQUEST, data=data))


def _certify(data: bytes) -> None:
    certificate = parse_certificate(data, "x")
    find_issuer(certificate)
    find_names(certificate)
    check_certificate(certificate, parse_trusted_root(json.dumps(ROOT)), NOW, "x")


def _verify_timestamp(data: bytes) -> None:
    others = [AUTHORITY.signer.certificate.public_bytes(Encoding.DER)]
    verify_timestamp(data, AUTHORITY.root.certificate.public_bytes(Encoding.DER), others)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _bytes(value: object) -> bytes:
    return json.dumps(value).encode()


def _archive() -> bytes:
    store = Store()
    store.add_image("a:1", {"file": b"x"})
    return make_archive(store, {"example.org/a:1": "a:1"})


def _rewrite(data: bytes) -> None:
    table = parse_toml(_text(data))
    assert str(parse_toml(format_toml(table))) == str(table)


PARSERS = {
    "reference": Parser(
        parse=lambda data: str(parse_reference(str(parse_reference(_text(data))))),
        seeds=[b"example.org:5000/a/b-c:1.2", f"[fd00::1]:5/a@{DIGEST}".encode()],
    ),
    "form": Parser(parse=lambda data: find_form(data, "", "x"), seeds=[_bytes(INDEX), _bytes(MANIFEST)]),
    "index": Parser(parse=lambda data: parse_index(data, "x"), seeds=[_bytes(INDEX)]),
    "manifest": Parser(parse=lambda data: parse_manifest(data, "x").size, seeds=[_bytes(MANIFEST)]),
    "config": Parser(parse=lambda data: parse_config(data, "x").chain_ids, seeds=[_bytes(CONFIG)]),
    "index of an archive": Parser(parse=find_named, seeds=[_bytes(NAMED)]),
    "header of an archive": Parser(parse=lambda data: parse_header(data[:512]), seeds=[_archive()[:512]]),
    "challenge": Parser(
        parse=lambda data: parse_challenge(_text(data)),
        seeds=[b'Bearer realm="https://a.example/token",service="s",scope="repository:a:pull"', b"Basic"],
    ),
    "token": Parser(
        parse=parse_token, seeds=[b'{"token": "abc"}', b'{"access_token": "a"}'], refusals=(RegistryError,)
    ),
    "redirect": Parser(
        parse=lambda data: find_target("https://a.example/v2/x", _text(data)),
        seeds=[b"https://b.example:443/c?d=e", b"/v2/y", b"//b.example"],
        refusals=(RegistryError,),
    ),
    "layer": Parser(
        parse=lambda data: sum(map(len, islice(unpack_layer([data]), 8))),
        seeds=[gzip.compress(b"abc" * 99), pack(b"abc" * 99)],
        refusals=ERRORS,
    ),
    "keyless signature": Parser(parse=_verify, seeds=[_bytes(SIGNED), _bytes(SIGNED2)]),
    "timestamp": Parser(
        parse=_verify_timestamp,
        seeds=[AUTHORITY.stamp(b"x", has_certificate=has_certificate) for has_certificate in (True, False)],
        refusals=(TimestampError,),
    ),
    "certificate of an identity": Parser(
        parse=_certify, seeds=[SIGSTORE.certify().certificate.public_bytes(Encoding.DER)]
    ),
    "trusted root": Parser(parse=lambda data: parse_trusted_root(_text(data)), seeds=[_bytes(ROOT)]),
    "TOML": Parser(
        parse=_rewrite, seeds=[b'a = 1\n["b.c"]\nd = [1.5, "x\\n", true]\n[b.e]\nf = {g = "h"}\n']
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_parser(name: str) -> None:
    check_parser(PARSERS[name])
