"""How clients share what a port has."""

import pytest

from talos.api.rpc import Code, RpcError
from talos.rpc.client_quota import ClientQuota


def fill(quota: ClientQuota, client: str) -> int:
    """How much a client gets, one by one."""
    got = 0
    while True:
        try:
            quota.take(client, 1)
        except RpcError:
            return got
        got += 1


def test_one_client_gets_a_half_and_others_a_share_of_the_rest() -> None:
    quota = ClientQuota(total=120, what="calls")
    assert fill(quota, "a") == 60
    assert fill(quota, "b") == 30
    assert fill(quota, "c") == 15
    quota.give_back("a", 60)
    assert fill(quota, "d") > 30


def test_all_comes_back() -> None:
    quota = ClientQuota(total=10, what="calls")
    for _ in range(3):
        assert fill(quota, "a") == 5
        quota.give_back("a", 5)


def test_what_is_left_of_a_share_is_still_held() -> None:
    quota = ClientQuota(total=10, what="calls")
    assert fill(quota, "a") == 5
    quota.give_back("a", 2)
    assert fill(quota, "a") == 2


def test_what_is_too_much_is_not_counted() -> None:
    quota = ClientQuota(total=10, what="calls")
    with pytest.raises(RpcError, match="too many calls at a time") as caught:
        quota.take("a", 6)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    quota.take("b", 5)
