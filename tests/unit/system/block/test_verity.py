"""Hash trees are those that veritysetup makes, whose roots are given here."""

from pathlib import Path

import pytest

from talos.system.block.verity import BLOCK, SALT, UUID, find_tree, make_tree
from talos.system.errors import UserError

ROOTS = {
    1: "3df9262a29e15ef7c7242b3cf5e83250045354188a2e51163cd9a6675039d729",
    128: "4a7be8b4a87741d06c858b778650e4111fb9f245c12e0dda50d70ff858e4aac6",
    129: "f96285f9d24bdd231b379b7cad1f622853613e32fd20eb4d82784fc090794ade",
}
"""By blocks of the letter "a", of cryptsetup 2.6.1: ``veritysetup format IMAGE TREE --salt SALT``.

The tree has no level, one, two.
"""


@pytest.mark.parametrize(("blocks", "size"), [(1, 1), (128, 2), (129, 4)])
def test_a_tree_is_that_of_veritysetup(tmp_path: Path, blocks: int, size: int) -> None:
    image = tmp_path / "rootfs.sqsh"
    image.write_bytes(b"a" * BLOCK * blocks)
    tree = make_tree(image)
    assert tree.root == ROOTS[blocks]
    assert len(tree.data) == size * BLOCK
    assert tree.data.startswith(b"verity\0\0" + b"\1\0\0\0" * 2 + UUID + b"sha256\0")
    assert tree.data[80:120] == b"\x20\0" + bytes(6) + SALT
    assert make_tree(image) == tree
    assert find_tree(image) == tmp_path / "rootfs.verity"


def test_every_bit_counts(tmp_path: Path) -> None:
    image = tmp_path / "rootfs.sqsh"
    image.write_bytes(bytes(BLOCK * 130))
    tree = make_tree(image)
    for place in (0, BLOCK * 64 + 7, BLOCK * 130 - 1):
        data = bytearray(BLOCK * 130)
        data[place] = 1
        image.write_bytes(data)
        assert make_tree(image).root != tree.root


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK + 512])
def test_an_image_without_whole_blocks_is_refused(tmp_path: Path, size: int) -> None:
    image = tmp_path / "rootfs.sqsh"
    image.write_bytes(bytes(size))
    with pytest.raises(
        UserError, match=rf"rootfs\.sqsh: has {size} bytes, which are no whole blocks of 4096"
    ):
        make_tree(image)
