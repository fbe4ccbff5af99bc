"""The network that a platform hands over."""

import pytest

from talos.machined.platform.network import parse_network
from talos.system.errors import UserError


@pytest.mark.parametrize("text", ["links: [{addresses: [x]}]", "links: [{name: a, addresses: [x]}]", "- a"])
def test_bad_network_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"network\.yaml"):
        parse_network(text, "", platform="container")
