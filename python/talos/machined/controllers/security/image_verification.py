"""ImageVerificationRule: which images must be signed, as the config has it."""

from typing import override

from talos.api.definitions.security_pb2 import ImageVerificationRuleSpec
from talos.config.active import read_config
from talos.images.rules import Rule, make_rules
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class ImageVerificationConfigController(Reconciler):
    """MachineConfig → ImageVerificationRule, one for each rule, in their order."""

    name = "security.ImageVerificationConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.IMAGE_VERIFICATION_RULE),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        rules = make_rules(await read_config(runtime))
        async with runtime.track_outputs():
            for rule in rules:
                await runtime.put(kinds.IMAGE_VERIFICATION_RULE, rule.id, make_spec(rule))


def make_spec(rule: Rule) -> ImageVerificationRuleSpec:
    """A rule as a resource."""
    spec = ImageVerificationRuleSpec(image_pattern=rule.pattern, skip=rule.skip, deny=rule.deny)
    if rule.key:
        spec.public_key_verifier.certificate = rule.key
    if rule.keyless:
        spec.keyless_verifier.issuer = rule.keyless.issuer or ""
        spec.keyless_verifier.subject = rule.keyless.subject or ""
        spec.keyless_verifier.subject_regex = rule.keyless.subject_regex or ""
    return spec
