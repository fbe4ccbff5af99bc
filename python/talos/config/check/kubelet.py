"""Fields and arguments of the kubelet that have no effect."""

from collections.abc import Iterable, Iterator

from talos.config.arguments import IMAGE_SERVICE, IMAGE_SERVICE_ARGUMENT
from talos.config.check.note import Note
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.documents.security.image_verification import ImageVerificationConfig
from talos.config.kubelet_fields import KUBELET_FIELDS, VERSION
from talos.config.model import Config
from talos.config.read.reader import did_you_mean

_HELD = "no effect: the kubelet pulls by the rules of ImageVerificationConfig"
_HINT = "leave it out, or the rules"


def find_ignored(config: Config) -> Iterator[Note]:
    """Fields that the kubelet does not have, and what the system sets while images are held to rules."""
    document, old = config.find(KubeletConfig), config.machine.kubelet if config.machine else None
    at, at_old = Note.at(document), Note.at(config.main, "machine.kubelet")
    fields = (
        (document.config if document else None, at.below("config")),
        (old.extra_config if old else None, at_old.below("extraConfig")),
    )
    arguments = (
        (document.extra_args if document else None, at.below("extraArgs")),
        (old.extra_args if old else None, at_old.below("extraArgs")),
    )
    for given, place in fields:
        yield from _find_unknown(given or {}, place)
    if any(one.rules for one in config.find_all(ImageVerificationConfig)):
        for given, place in fields:
            if given and IMAGE_SERVICE in given:
                yield place.below(IMAGE_SERVICE).find(_HELD, hint=_HINT)
        for given, place in arguments:
            if given and IMAGE_SERVICE_ARGUMENT in given:
                yield place.below(f"[{IMAGE_SERVICE_ARGUMENT}]").find(_HELD, hint=_HINT)


def _find_unknown(fields: Iterable[str], at: Note) -> Iterator[Note]:
    """The kubelet logs a field that it does not have, and starts; another version may have it."""
    for name in fields:
        if name not in KUBELET_FIELDS:
            message = f"no effect: a kubelet of Kubernetes {VERSION} has no such field"
            yield at.below(name).find(message, hint=did_you_mean(name, KUBELET_FIELDS))
