"""Microsoft Azure, by answers in the form of its documentation."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, make_cloud_source, show
from tests.unit.machined.platform.machine import Machine

from talos.machined.platform.clouds.azure import BALANCER, BASE, CARDS, CLOUD, COMPUTE, ENVIRONMENT
from talos.machined.platform.clouds.azure_ready import GOAL, HEALTH
from talos.system.errors import UserError

COMPUTE_ANSWER = """\
{
  "azEnvironment": "AzurePublicCloud",
  "evictionPolicy": "Deallocate",
  "location": "westeurope",
  "name": "node-1",
  "osProfile": {"adminUsername": "admin", "computerName": "node-1"},
  "osType": "Linux",
  "platformFaultDomain": "2",
  "platformUpdateDomain": "0",
  "resourceGroupName": "My-Group",
  "resourceId": "/subscriptions/1-2/resourceGroups/My-Group/providers/Microsoft.Compute/virtualMachines/N",
  "subscriptionId": "1-2",
  "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6",
  "vmSize": "Standard_D4s_v5",
  "zone": "1"
}
"""
CARDS_ANSWER = """\
[{
  "ipv4": {
    "ipAddress": [{"privateIpAddress": "10.0.1.4", "publicIpAddress": "192.0.2.7"}],
    "subnet": [{"address": "10.0.1.0", "prefix": "24"}]
  },
  "ipv6": {"ipAddress": [{"privateIpAddress": "fd00::10", "publicIpAddress": ""}]},
  "macAddress": "000D3AD631EE"
}]
"""
BALANCER_ANSWER = """\
{"loadbalancer": {
  "publicIpAddresses": [
    {"frontendIpAddress": "[2001:db8::34]", "privateIpAddress": "[fd00::10]"},
    {"frontendIpAddress": "192.0.2.8", "privateIpAddress": "10.0.1.4"}
  ],
  "inboundRules": [],
  "outboundRules": []
}}
"""
GOAL_ANSWER = """\
\ufeff<?xml version="1.0" encoding="utf-8"?>
<GoalState xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <Version>2012-11-30</Version>
  <Incarnation>3</Incarnation>
  <Machine><ExpectedState>Started</ExpectedState></Machine>
  <Container>
    <ContainerId>2f96d1b2-0001</ContainerId>
    <RoleInstanceList><RoleInstance>
      <InstanceId>2f96d1b2.node-1</InstanceId>
      <State>Started</State>
    </RoleInstance></RoleInstanceList>
  </Container>
</GoalState>
"""
ENVIRONMENT_TEXT = """\
<?xml version="1.0" encoding="utf-8"?>
<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:wa="http://schemas.microsoft.com/windowsazure">
  <wa:ProvisioningSection>
    <wa:Version>1.0</wa:Version>
    <LinuxProvisioningConfigurationSet xmlns="http://schemas.microsoft.com/windowsazure">
      <ConfigurationSetType>LinuxProvisioningConfiguration</ConfigurationSetType>
      <HostName>node-1</HostName>
      <CustomData>DATA</CustomData>
    </LinuxProvisioningConfigurationSet>
  </wa:ProvisioningSection>
</Environment>
"""
CONFIG = b"version: v1alpha1\n"


def make_server(**more: str) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/{COMPUTE}": COMPUTE_ANSWER,
            f"{BASE}/{CARDS}": CARDS_ANSWER,
            f"{BASE}/{BALANCER}": BALANCER_ANSWER,
        }
        | more,
        headers={"Metadata": "true"},
    )


async def load(place: Path, text: str, goal: str = GOAL_ANSWER) -> tuple[bytes, list[bytes | None]]:
    """The machine config of a CD with this text, and the reports to the wire server."""
    server = FakeServer({GOAL: goal, HEALTH: ""})
    machine = Machine(place, {ENVIRONMENT: text.encode()})
    await machine.attach("rd_rdfe_stable", "udf")
    found = await make_cloud_source(server)
    volume = replace(found.volume, state=machine.state, mounts=machine.mounts)
    source = machine.place_volume(replace(found, volume=volume))
    data = await CLOUD.load_config(source)
    return data, [request.body for request in server.requests if request.method == "POST"]


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, make_server())
    assert show(spec) == [
        "link eth0 mtu 1400",
        "route eth0 default via fe80::1234:5678:9abc metric 2048",
        "dhcp4 eth0",
        "dhcp6 eth0",
        "external 192.0.2.7",
        "external 2001:db8::34",
        "external 192.0.2.8",
    ]
    metadata = spec.metadata
    resource = "/providers/Microsoft.Compute/virtualMachines/N"
    assert metadata.instance_id == f"/subscriptions/1-2/resourceGroups/My-Group{resource}"
    assert metadata.provider_id == f"azure:///subscriptions/1-2/resourceGroups/my-group{resource}"
    assert (metadata.region, metadata.zone) == ("westeurope", "westeurope-1")
    assert (metadata.hostname, metadata.instance_type) == ("node-1", "Standard_D4s_v5")
    assert metadata.spot


async def test_a_region_without_zones_has_fault_domains() -> None:
    compute = '{"location": "CentralUS", "platformFaultDomain": "2", "zone": ""}'
    spec = await describe(CLOUD, make_server(**{f"{BASE}/{COMPUTE}": compute}))
    assert (spec.metadata.region, spec.metadata.zone, spec.metadata.spot) == ("centralus", "2", False)


async def test_parts_that_are_missing() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == (["link eth0 mtu 1400", "dhcp4 eth0"], "")


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        (COMPUTE, "<html>", "compute: this is no JSON"),
        (COMPUTE, '{"osProfile": "x"}', "compute.osProfile: a mapping"),
        (CARDS, '[{"ipv4": {"ipAddress": [{"publicIpAddress": "x"}]}}]', r"interface\[0\]: address 'x'"),
        (BALANCER, '{"loadbalancer": []}', "loadbalancer: a mapping"),
    ],
)
async def test_a_mistake_is_named_on_one_line(part: str, text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, make_server(**{f"{BASE}/{part}": text}))
    assert str(caught.value).isprintable()


async def test_its_config_and_the_report(tmp_path: Path) -> None:
    text = ENVIRONMENT_TEXT.replace("DATA", base64.b64encode(CONFIG).decode())
    data, [report] = await load(tmp_path, text)
    assert data == CONFIG
    assert report == (
        b'<?xml version="1.0" encoding="utf-8"?>'
        b"<Health><GoalStateIncarnation>3</GoalStateIncarnation>"
        b"<Container><ContainerId>2f96d1b2-0001</ContainerId>"
        b"<RoleInstanceList><Role><InstanceId>2f96d1b2.node-1</InstanceId>"
        b"<Health><State>Ready</State></Health></Role></RoleInstanceList></Container></Health>"
    )


async def test_a_machine_without_a_config(tmp_path: Path) -> None:
    data, reports = await load(tmp_path, ENVIRONMENT_TEXT.replace("<CustomData>DATA</CustomData>", ""))
    assert (data, len(reports)) == (b"", 1)


@pytest.mark.parametrize("goal", ["", "<GoalState/>", GOAL_ANSWER.replace("node-1", "a b")])
async def test_a_goal_that_is_malformed_changes_no_config(tmp_path: Path, goal: str) -> None:
    text = ENVIRONMENT_TEXT.replace("DATA", base64.b64encode(CONFIG).decode())
    assert await load(tmp_path, text, goal) == (CONFIG, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<a><b></a>",
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a><a/>',
        f"<a>{' ' * 1024 * 1024}</a>",
    ],
)
async def test_a_cd_with_a_mistake(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=ENVIRONMENT) as caught:
        await load(tmp_path, text)
    assert str(caught.value).isprintable()
