"""The certificate and the key that a server is given as files."""

from pathlib import Path

import pytest

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.serving.endpoint import read_pair
from talos.system.errors import UserError

FLAGS = ("--cert", "--key")


def make_pair(key_type: KeyType) -> PemPair:
    authority = CertificateAuthority.generate(KeyType.P256)
    return authority.issue(ips=["127.0.0.1"], usages=Usage.SERVER, key_type=key_type)


def write_pair(folder: Path, pair: PemPair) -> tuple[Path, Path]:
    certificate, key = folder / "server.crt", folder / "server.key"
    certificate.write_bytes(pair.crt)
    key.write_bytes(pair.key)
    return certificate, key


def test_a_pair_is_read(tmp_path: Path) -> None:
    pair = make_pair(KeyType.P256)
    assert read_pair(*write_pair(tmp_path, pair), FLAGS) == pair
    assert read_pair(None, None, FLAGS) is None


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, make_pair(KeyType.P256))
    with pytest.raises(UserError, match=r"--cert, --key: belong together \(give both or none\)"):
        read_pair(certificate, None, FLAGS)
    with pytest.raises(UserError, match="nowhere: can't be read: No such file or directory"):
        read_pair(tmp_path / "nowhere", key, FLAGS)
    with pytest.raises(UserError, match=r"server\.crt: no private key"):
        read_pair(certificate, certificate, FLAGS)
    key.write_bytes(make_pair(KeyType.P256).key)
    with pytest.raises(UserError, match=r"server\.key: does not belong to .*server\.crt"):
        read_pair(certificate, key, FLAGS)


def test_a_key_that_grpcio_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Ed25519 does not work here"):
        read_pair(*write_pair(tmp_path, make_pair(KeyType.ED25519)), FLAGS)
