"""The store's paths, computed here, are those that Nix computes."""

from pathlib import Path

import pytest
from locks import Input, legal
from report import FetchError
from store import check_sha256, store_path


# What `nix-store --print-fixed-path sha256 HASH NAME` of Nix 2.8 printed, without and with --recursive.
@pytest.mark.parametrize(
    ("item", "path"),
    [
        (Input("libfoo_1-2.deb", "a" * 64), "64hy91l303abcg2vcvd7kpx734jx6bsd-libfoo_1-2.deb"),
        (
            Input("bootstrap", "b" * 64, recursive=True),
            "86dibb2y70vqxi84kwbdsrbjg20l4zbb-bootstrap",
        ),
    ],
)
def test_path_is_nix_own(item: Input, path: str) -> None:
    assert store_path(item) == f"/nix/store/{path}"


def test_names_become_legal() -> None:
    assert legal("libcap2_1%3a2.75~rc1_amd64.deb") == "libcap2_1-2.75-rc1_amd64.deb"


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.deb"
    file.write_bytes(b"not what was locked")
    with pytest.raises(FetchError, match=r"x\.deb: sha256 is [0-9a-f]{64}, not 0{64}"):
        check_sha256(file, "0" * 64)
