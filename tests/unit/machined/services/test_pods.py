"""How long the container of a pod has to end."""

import json

import pytest

from talos.machined.services.pods import DEFAULT_GRACE_PERIOD, MAX_GRACE_PERIOD, parse_grace


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5", 5),
        ("9999999", MAX_GRACE_PERIOD),
        ("-1", 0),
        ("nan", DEFAULT_GRACE_PERIOD),
        ("soon", DEFAULT_GRACE_PERIOD),
        (None, DEFAULT_GRACE_PERIOD),
    ],
)
def test_a_pods_grace_is_bounded(text: str | None, seconds: float) -> None:
    annotations = {"io.kubernetes.pod.terminationGracePeriod": text} if text is not None else {}
    document = {"Version": "v1", "Metadata": {"Config": {"annotations": annotations}}}
    assert parse_grace(json.dumps(document).encode()) == seconds


@pytest.mark.parametrize("metadata", [b"", b"[]", b"{", b'{"Metadata": 7}'])
def test_what_is_noted_otherwise_is_the_default(metadata: bytes) -> None:
    assert parse_grace(metadata) == DEFAULT_GRACE_PERIOD
