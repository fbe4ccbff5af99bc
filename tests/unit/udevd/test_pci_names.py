"""Names of PCI devices, from a part of the list that the image has."""

from pathlib import Path

import pytest

from talos.udevd.pci_names import CardNames, find_names

PCI_IDS = Path(__file__).parents[2] / "data" / "pci.ids"


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ((0x8086, 0x10D3), ("Intel Corporation", "82574L Gigabit Network Connection")),
        ((0x8086, 0x1000), ("Intel Corporation", "82542 Gigabit Ethernet Controller (Fiber)")),
        # The product is another vendor's, before it and behind it.
        ((0x1AF4, 0x10D3), ("Red Hat, Inc.", "")),
        ((0x1002, 0x1000), ("Advanced Micro Devices, Inc. [AMD/ATI]", "")),
        ((0xFFFF, 0x0001), ("Illegal Vendor ID", "")),
        ((0x1234, 0x1111), ("", "")),
    ],
)
def test_vendors_and_products(ids: tuple[int, int], names: tuple[str, str]) -> None:
    found = find_names(*ids, 0xFE, 0, PCI_IDS)
    assert (found.vendor, found.product) == names


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ((0x02, 0x00), ("Network controller", "Ethernet controller")),
        ((0x01, 0x08), ("Mass storage controller", "Non-Volatile memory controller")),
        ((0x02, 0x77), ("Network controller", "")),
        ((0xFF, 0x00), ("Unassigned class", "")),
        ((0xFE, 0x00), ("", "")),
    ],
)
def test_classes(ids: tuple[int, int], names: tuple[str, str]) -> None:
    found = find_names(0x1234, 0x1111, *ids, PCI_IDS)
    assert (found.kind, found.subclass) == names


def test_without_the_list_there_are_no_names(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for file in (tmp_path / "missing", empty):
        assert find_names(0x8086, 0x10D3, 2, 0, file) == CardNames()
