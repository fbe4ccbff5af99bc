"""What is built into the kernel is compared with its configuration."""

from pathlib import Path

import pytest

from talos.config.check.modules import BUILT_IN, find_modules
from talos.config.read.loader import load

KERNEL = Path(__file__).parents[4] / "kernel/config"


def test_modules_called_built_in_are_in_the_kernel() -> None:
    lines = {line for path in KERNEL.glob("*.config") for line in path.read_text().splitlines()}
    assert [symbol for symbol in BUILT_IN.values() if f"CONFIG_{symbol}=y" not in lines] == []


def test_built_in_modules_are_silent_with_either_spelling() -> None:
    config = load(
        "machine: {kernel: {modules: [{name: nvme-tcp}, {name: br_netfilter}]}}\n"
        "---\napiVersion: v1alpha1\nkind: KernelModuleConfig\nname: nbd\n"
    )
    assert not list(find_modules(config))


@pytest.mark.parametrize(
    ("module", "message", "hint"),
    [
        ("name: nbd, parameters: [nbds_max=64]", '"nbd" is built into', "kernel arguments: nbd.nbds_max=64"),
        ("name: thunderbolt", '"thunderbolt" is not in this kernel', "kernelOptions.USB4 = true"),
        ("name: nvidia_uvm", '"nvidia_uvm" is a driver from outside', "leave it out; what needs it"),
        ("name: a", '"a" is there only if it is built in', "leave it out; kernelOptions"),
    ],
)
def test_others_have_a_place_and_the_remedy(module: str, message: str, hint: str) -> None:
    (note,) = find_modules(load(f"machine: {{kernel: {{modules: [{{{module}}}]}}}}\n"))
    assert note.path == "machine.kernel.modules[0]"
    assert message in note.message
    assert hint in note.hint


def test_a_document_of_a_module_is_a_place_too() -> None:
    (note,) = find_modules(load("apiVersion: v1alpha1\nkind: KernelModuleConfig\nname: zfs\n"))
    assert note.document is not None
    assert not note.path
