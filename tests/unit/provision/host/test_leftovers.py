"""Leftovers of a container."""

from pathlib import Path

from talos.provision.host.leftovers import mounts_below


def test_mounts_of_a_folder_are_found_by_their_unescaped_names() -> None:
    text = "1 0 0:1 / /a\\040b/root rw - tmpfs t rw\n2 0 0:2 / /a rw - tmpfs t rw\n"
    assert mounts_below(Path("/a b"), text) == ["/a b/root"]
