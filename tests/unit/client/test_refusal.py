"""Why a connection was not made, in words that lead on."""

import pytest

from talos.client.endpoint import parse_endpoint
from talos.client.refusal import explain


@pytest.mark.parametrize(
    ("endpoint", "is_name"),
    [("10.0.0.1", False), ("[fd00::1]:50000", False), ("talos.default", True), ("node-1", True)],
)
def test_a_name_may_be_what_is_not_answered(endpoint: str, is_name: bool) -> None:
    text = str(explain(parse_endpoint(endpoint), TimeoutError()))
    assert "no answer in time (the node is down, " in text
    assert ("no name server answers" in text) is is_name
