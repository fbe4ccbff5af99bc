"""Authorities and keys of Kubernetes with which a node can't serve, such as those of the examples."""

from pathlib import Path

import pytest

from talos.config.change.patch import apply_patches, parse_patch
from talos.config.check.authorities import find_unusable
from talos.config.read.loader import load

EXAMPLES = Path(__file__).parents[4] / "docs/examples"
REMEDY = "(copy the whole block, from BEGIN to END)"
CERTIFICATE, KEY = f"the certificate is damaged {REMEDY}", f"the private key is damaged {REMEDY}"
NOTES = {
    "KubeAPIServerCAConfig": [f"KubeAPIServerCAConfig acceptedCAs[0]: {CERTIFICATE}"],
    "KubeAggregatorCAConfig": [
        f"KubeAggregatorCAConfig issuingCA: {CERTIFICATE}",
        f"KubeAggregatorCAConfig acceptedCAs[0]: {CERTIFICATE}",
    ],
    "KubeServiceAccountConfig": [f"KubeServiceAccountConfig issuer.privateKey: {KEY}"],
}


def find_notes(text: str) -> list[str]:
    """Without the lines and columns of their places."""
    config = load(text)
    return [str(note.problem(config)).partition(": ")[2] for note in find_unusable(config)]


@pytest.mark.parametrize("kind", NOTES)
def test_placeholders_of_examples_are_named(kind: str, control_plane: str) -> None:
    patch = parse_patch((EXAMPLES / f"{kind}.yaml").read_bytes())
    assert find_notes(apply_patches(control_plane, [patch])) == NOTES[kind]


@pytest.mark.parametrize("which", ["control_plane", "worker"])
def test_generated_authorities_are_usable(which: str, request: pytest.FixtureRequest) -> None:
    assert find_notes(request.getfixturevalue(which)) == []
