"""Whom a machine in maintenance serves."""

import pytest

from talos.api.definitions.runtime_pb2 import APIServiceConfigSpec
from talos.apid import caller
from talos.apid.admission import Admission

OURS, MANAGER = "fdae:41e4:649b:9303::2", "fdae:41e4:649b:9303::1"


@pytest.mark.parametrize(
    ("listen", "there", "here", "is_admitted"),
    [
        (":50000", "10.0.0.1", "10.0.0.2", True),
        ("", "10.0.0.1", "10.0.0.2", False),
        ("", "127.0.0.1", "127.0.0.1", True),
        ("", "::1", "::1", True),
        (f"[{OURS}]:50000", "10.0.0.1", "10.0.0.2", False),
        (f"[{OURS}]:50000", MANAGER, OURS, True),
        (f"[{OURS}]:50000", MANAGER, "fdae:41e4:649b:9303::7", False),
        (f"[{OURS}]:50000", "2001:db8::1", OURS, False),
    ],
)
def test_with_siderolink_it_is_the_manager_alone(
    monkeypatch: pytest.MonkeyPatch, listen: str, there: str, here: str, *, is_admitted: bool
) -> None:
    def is_on_link(link: str, *, here: str, there: str) -> bool:
        return link == "siderolink" and here != there

    monkeypatch.setattr(caller, "is_on_link", is_on_link)
    admission = Admission()
    assert not admission.known.is_set()
    admission.set(APIServiceConfigSpec(listen_address=listen))
    assert admission.known.is_set()
    assert admission.admits(there, here) is is_admitted
