"""Fields of the kubelet's configuration that it does not have."""

import pytest

from talos.config import contract
from talos.config.check.kubelet import find_ignored
from talos.config.check.validate import Mode, validate
from talos.config.kubelet_fields import VERSION
from talos.config.read.loader import load
from talos.config.read.reader import MAX_PROBLEMS

RULES = "---\napiVersion: v1alpha1\nkind: ImageVerificationConfig\nrules:\n  - {image: '*', deny: true}\n"
DOCUMENT = "apiVersion: v1alpha1\nkind: KubeletConfig\nimage: registry.test/kubelet:v1.37.0\nconfig:\n"
MAIN = "version: v1alpha1\nmachine:\n  kubelet:\n    extraConfig:\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{DOCUMENT}  maxPodz: 5\n", "c:5:3: KubeletConfig config.maxPodz"),
        (f"{MAIN}      maxPodz: 5\n", "c:5:7: machine.kubelet.extraConfig.maxPodz"),
    ],
)
def test_the_nearest_one_that_it_has_is_named(text: str, place: str) -> None:
    (note,) = validate(load(text, source="c"), Mode.CONTAINER, partial=True).notes
    assert str(note) == (
        f'{place}: no effect: a kubelet of Kubernetes {VERSION} has no such field (did you mean "maxPods"?)'
    )


def test_what_it_has_is_silent_on_every_level() -> None:
    fields = "  maxPods: 5\n  shutdownGracePeriod: 5s\n  featureGates: {Foo: true}\n  logging: {other: 1}\n"
    assert not list(find_ignored(load(DOCUMENT + fields)))


def test_case_counts_as_for_the_kubelet() -> None:
    (note,) = find_ignored(load(f"{DOCUMENT}  maxpods: 5\n"))
    assert note.hint == 'did you mean "maxPods"?'


def test_many_are_no_more_work_than_some() -> None:
    fields = "".join(f"  field{number}: 1\n" for number in range(5000))
    assert len(validate(load(DOCUMENT + fields), Mode.CONTAINER, partial=True).notes) == MAX_PROBLEMS


def test_the_table_is_of_the_version_that_nodes_have() -> None:
    assert contract.KUBERNETES_VERSION.startswith(f"{VERSION}."), "make the table anew"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{DOCUMENT}  imageServiceEndpoint: unix:///a\n", "config.imageServiceEndpoint"),
        (f"{MAIN}      imageServiceEndpoint: a\n", "machine.kubelet.extraConfig.imageServiceEndpoint"),
        (
            f"{DOCUMENT}  maxPods: 5\nextraArgs:\n  image-service-endpoint: unix:///a\n",
            "extraArgs[image-service-endpoint]",
        ),
        (
            f"{MAIN}      maxPods: 5\n    extraArgs:\n      image-service-endpoint: unix:///a\n",
            "machine.kubelet.extraArgs[image-service-endpoint]",
        ),
    ],
)
def test_another_image_service_has_no_effect_beside_rules_of_images(text: str, place: str) -> None:
    assert not list(find_ignored(load(text)))
    (note,) = find_ignored(load(text + RULES))
    assert note.path == place
    assert note.message == "no effect: the kubelet pulls by the rules of ImageVerificationConfig"
