"""When a member may be removed."""

import pytest
from tests.unit.clusterd.etcd.twin import FIRST, SECOND, member

from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.members import MemberStatus, check_status


@pytest.mark.parametrize(
    ("healthy", "gone", "code"),
    [
        ({1, 2, 3}, 3, None),
        ({1, 2}, 3, None),
        ({1, 3}, 3, Code.FAILED_PRECONDITION),
        ({1}, 4, None),
        ({1, 2, 3}, 9, Code.NOT_FOUND),
    ],
)
def test_a_member_goes_only_if_the_others_have_a_quorum(
    healthy: set[int], gone: int, code: Code | None
) -> None:
    members = [FIRST, SECOND, member(3, "cp-3", 4), member(4, "cp-4", 5, is_learner=True)]
    status = MemberStatus(members=members, healthy=frozenset(healthy))
    if code is None:
        check_status(status, gone)
        return
    with pytest.raises(RpcError) as caught:
        check_status(status, gone)
    assert caught.value.code is code


def test_the_only_member_stays() -> None:
    with pytest.raises(RpcError, match="the only voting member"):
        check_status(MemberStatus(members=[FIRST], healthy=frozenset({1})), 1)
