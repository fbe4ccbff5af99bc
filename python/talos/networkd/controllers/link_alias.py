"""LinkAliasSpec: other names of links, by which a config can name them."""

from talos.api.definitions.network_pb2 import LinkAliasSpecSpec, LinkStatusSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import LINK
from talos.config.documents.network.link_alias import LinkAliasConfig
from talos.config.model import Config
from talos.networkd.controllers.kernel import KernelReconciler
from talos.networkd.controllers.link_status import is_physical
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, InputStrength, Output, Reconciler
from talos.resource.resource import Phase
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.net.links import Topic

_PATTERN = "%d"


class LinkAliasConfigController(Reconciler):
    """MachineConfig, LinkStatus → LinkAliasSpec, named after the link."""

    name = "network.LinkAliasConfigController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(kinds.LINK_STATUS))
    outputs = (Output(kinds.LINK_ALIAS_SPEC),)

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Look which links the selectors match."""
        config = await read_partial_config(runtime)
        links = {
            link.id: link.spec for link in await runtime.list(kinds.LINK_STATUS) if is_physical(link.spec)
        }
        aliases, problems = find_aliases(config, links) if config is not None else ({}, [])
        for problem in problems:
            self._log.once(problem)
        async with runtime.track_outputs():
            for name, alias in aliases.items():
                await runtime.put(kinds.LINK_ALIAS_SPEC, name, LinkAliasSpecSpec(alias=alias))


def find_aliases(config: Config, links: dict[str, LinkStatusSpec]) -> tuple[dict[str, str], list[str]]:
    """Each link's alias, and what can't be applied.

    A plain name is for exactly one link, one with ``%d`` is counted from 0 in the order of the hardware
    addresses. A link keeps the first alias, in the order of the documents' names.
    """
    ordered = sorted(links, key=lambda name: (links[name].permanent_addr or links[name].hardware_addr, name))
    aliases: dict[str, str] = {}
    problems: list[str] = []
    for document in sorted(config.find_all(LinkAliasConfig), key=lambda document: document.name):
        where = f"LinkAliasConfig {document.name}"
        selector = document.selector.match if document.selector else None
        try:
            expression = compile_expression(selector or "", LINK, where=where)
            matches = [name for name in ordered if expression.is_true({"link": links[name]})]
        except UserError as error:
            problems.append(f"ignored: {error}")
            continue
        if len(matches) > 1 and _PATTERN not in document.name:
            found = ", ".join(matches)
            problems.append(f"{where} ignored: it matches {found}; select one link, or name them net%d")
            continue
        problems += [
            f"{where}: link {name} has the alias {aliases[name]} already"
            for name in matches
            if name in aliases
        ]
        free = [name for name in matches if name not in aliases]
        aliases |= {name: document.name.replace(_PATTERN, str(count), 1) for count, name in enumerate(free)}
    return aliases, problems


async def has_pending_aliases(runtime: ControllerRuntime) -> bool:
    """Whether a link has yet to get its alias: until then what the config has of it is of no link."""
    config = await read_partial_config(runtime)
    if config is None:
        return False
    links = {link.id: link.spec for link in await runtime.list(kinds.LINK_STATUS) if is_physical(link.spec)}
    return any(links[name].alias != alias for name, alias in find_aliases(config, links)[0].items())


class LinkAliasSpecController(KernelReconciler):
    """Sets the aliases in the kernel, and removes those whose spec is removed."""

    name = "network.LinkAliasSpecController"
    inputs = (Input(kinds.LINK_ALIAS_SPEC, strength=InputStrength.STRONG),)
    topics = Topic.LINK

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the differences."""
        there = {link.name: link for link in await self.links.links()}
        for resource in await runtime.list(kinds.LINK_ALIAS_SPEC):
            link = there.get(resource.id)
            is_ending = resource.metadata.phase is Phase.TEARING_DOWN
            alias = "" if is_ending else resource.spec.alias
            if not is_ending and not await self.hold(runtime, kinds.LINK_ALIAS_SPEC, resource):
                continue
            if link is not None and link.alias != alias:
                self.log.info(f"link {resource.id}: {f'alias {alias}' if alias else 'no alias'}")
                await self.attempt(f"link {resource.id}, alias", self.links.set_link(link.index, alias=alias))
            if is_ending:
                await runtime.remove_finalizer(kinds.LINK_ALIAS_SPEC, resource.id)
