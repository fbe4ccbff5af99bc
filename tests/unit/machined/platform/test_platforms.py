"""The platforms that images can be built for are those that nodes have."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from talos.machined.platform.arguments import METAL
from talos.machined.platform.clouds.cloud import Cloud
from talos.machined.platform.clouds.registry import MODULES, find_cloud

ROOT = Path(__file__).parents[4]
PLATFORMS = (ROOT / "modules/platforms.nix").read_text(encoding="utf-8")


def test_images_and_nodes_have_the_same() -> None:
    names = re.findall(r"^  ([\w-]+) = (?:\[|screen)", PLATFORMS.partition("mapAttrs")[2], re.MULTILINE)
    assert sorted(names) == sorted(MODULES)
    assert f"{{ {METAL} = [ ]; }}" in PLATFORMS


@pytest.mark.parametrize("name", MODULES)
def test_each_is_a_cloud(name: str) -> None:
    assert isinstance(find_cloud(name), Cloud)
    assert import_module(f"talos.machined.platform.clouds.{MODULES[name]}").CLOUD is find_cloud(name)


def test_metal_is_none() -> None:
    assert find_cloud(METAL) is None
