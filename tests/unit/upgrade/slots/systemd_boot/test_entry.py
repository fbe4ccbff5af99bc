"""Names of the slots' images, and systemd-boot's settings."""

import pytest

from talos.upgrade.slots.loader_trial import FOLDER
from talos.upgrade.slots.systemd_boot.entry import find_slot, name_revocations, name_slot, name_trial
from talos.upgrade.slots.systemd_boot.settings import find_default, make_settings


@pytest.mark.parametrize("slot", ["A", "B"])
def test_names_of_slots(slot: str) -> None:
    assert name_slot(slot) == f"talos-{slot.lower()}.efi"
    assert (
        find_slot(name_slot(slot))
        == find_slot(name_slot(slot).upper())
        == find_slot(name_trial(slot))
        == slot
    )


@pytest.mark.parametrize(
    "entry",
    ["", "talos-c.efi", "talos-a", "talos-a+1.efi", "talos-a.efi@", "Talos-v1.15.0.efi", "talos-a.efi\n"],
)
def test_entries_of_others(entry: str) -> None:
    assert not find_slot(entry)


def test_settings_keep_their_other_lines() -> None:
    before = "timeout 3\ndefault  talos-a.efi\n# default is ours\nsecure-boot-enroll if-safe\n"
    text = make_settings(before, "B")
    assert text == "timeout 3\n# default is ours\nsecure-boot-enroll if-safe\ndefault talos-b.efi\n"
    assert find_default(text) == "B"


def test_revocations_outlast_the_trial_of_a_boot_loader() -> None:
    """Its folder is cleared with the verdict, and vfat compares names without their case."""
    assert not name_revocations("B").casefold().startswith(f"{FOLDER}/".casefold())
