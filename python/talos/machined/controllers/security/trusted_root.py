"""TUFTrustedRoot: whose certificates and logs count for keyless signatures of images."""

from pathlib import Path
from typing import override

from talos.api.definitions.security_pb2 import TUFTrustedRootSpec
from talos.config.active import read_config
from talos.config.documents.security.sigstore_trusted_root import SigstoreTrustedRootConfig
from talos.images.rules import make_rules
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

OF_SIGSTORE = Path(__file__).with_name("trusted_root.json")
"""That of Sigstore's public instance, as its TUF repository had it when this version was made."""


class TUFTrustedRootController(Reconciler):
    """MachineConfig → TUFTrustedRoot, the config's or Sigstore's, while a rule is for keyless signatures."""

    name = "security.TUFTrustedRootController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.TUF_TRUSTED_ROOT),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if any(rule.keyless for rule in make_rules(config)):
                own = config.find(SigstoreTrustedRootConfig) if config else None
                text = OF_SIGSTORE.read_text(encoding="utf-8") if own is None else own.trusted_root
                await runtime.put(*ids.TUF_TRUSTED_ROOT, TUFTrustedRootSpec(json_data=text or ""))
