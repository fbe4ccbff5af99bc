"""The examples of docs/network.md: each is a config that loads, is valid, and has no problem in networkd."""

import re
from pathlib import Path

import pytest

from talos.config.check.validate import Mode, check
from talos.config.read.loader import load
from talos.networkd.controllers.link_alias import find_aliases
from talos.networkd.device_config import make_device_config
from talos.networkd.firewall import make_ingress_chain
from talos.networkd.packet_filter import make_chain

TEXT = (Path(__file__).parents[3] / "docs" / "network.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
MAIN = "version: v1alpha1\nmachine: {type: worker}\n---\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: re.findall(r"kind: (\w+)", text)[0])
def test_an_example_loads(example: str) -> None:
    config = load(MAIN + example)
    place = [
        problem for problem in check(load(example), Mode.METAL, partial=True) if "no effect" in str(problem)
    ]
    assert not place, place
    assert make_device_config(config, {}).problems == []
    assert find_aliases(config, {})[1] == []
    assert make_chain("ingress", make_ingress_chain(config)).rules


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5
