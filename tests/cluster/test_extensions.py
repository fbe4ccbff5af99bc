"""A node with extensions: what it reports about them, and a service that follows the machine config."""

from collections.abc import Iterator

import pytest
from tests.harness.cluster import REPOSITORY, Cluster, eventually, image_archives, running_cluster

NAME, ID = "hello", "ext-hello"
AGENT = "ext-qemu-guest-agent"
ISCSID = "ext-iscsid"
CONFIG = """
apiVersion: v1alpha1
kind: ExtensionServiceConfig
name: hello
environment: [WHO={who}]
configFiles:
  - content: "{text}\\n"
    mountPath: /data/text
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    image = REPOSITORY / "build/extended.squashfs"
    assert image.exists(), f"there is no image at {image}: make extended"
    directory = tmp_path_factory.mktemp("clusters")
    with running_cluster(directory, system=image.resolve(), bootstrap=False) as running:
        eventually("the node answers", lambda: running.talosctl("version"))
        yield running


def service(cluster: Cluster, name: str) -> dict[str, str]:
    found = {row["SERVICE"]: row for row in cluster.rows("services")}
    assert name in found, sorted(found)
    return found[name]


def check_state(cluster: Cluster, name: str, state: str, event: str) -> None:
    row = service(cluster, name)
    assert (row["STATE"], event in row["LAST EVENT"]) == (state, True), row


def test_extensions_and_their_parts_are_listed(cluster: Cluster) -> None:
    def are_listed() -> None:
        rows = {row["NAME"]: row["ID"] for row in cluster.rows("get", "extensions")}
        assert rows == {"qemu-guest-agent": "0", NAME: "1", "iscsi-tools": "2", "util-linux-tools": "3"}
        labels = cluster.talosctl("get", "nodelabelspecs", "-o", "yaml").stdout
        assert "key: extensions.talos.dev/hello" in labels, labels
        annotations = cluster.talosctl("get", "nodeannotationspecs", "-o", "yaml").stdout
        assert "key: extensions.talos.dev/qemu-guest-agent" in annotations, annotations  # 1:10.0…
        listed = cluster.talosctl("get", "sbom").stdout
        assert "hello/coreutils" in listed
        assert "qemu-guest-agent/libglib2.0-0t64" in listed

    # The API answers before every daemon has started.
    eventually("the extensions are listed", are_listed)
    assert "image: 001.hello.sqsh" in cluster.talosctl("read", "/etc/extensions.yaml").stdout


def test_containerd_has_the_settings_of_extensions(cluster: Cluster) -> None:
    def are_there() -> None:
        assert ".runtimes.hello]" in cluster.talosctl("read", "/etc/cri/conf.d/cri.toml").stdout

    eventually("the extension's runtime is there", are_there)


def test_a_service_waits_for_what_it_depends_on(cluster: Cluster) -> None:
    path = 'file "/dev/virtio-ports/org.qemu.guest_agent.0" to exist'
    eventually("the agent waits for its device", lambda: check_state(cluster, AGENT, "Waiting", path))
    path = 'file "/etc/iscsi/initiatorname.iscsi" to exist'
    eventually(
        "iscsid waits for the name that machines have", lambda: check_state(cluster, ISCSID, "Waiting", path)
    )
    waits = "extension service config"
    eventually("it waits for its config", lambda: check_state(cluster, ID, "Waiting", waits))


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ("iscsiadm,-m,session", "No active sessions"),
        ("iscsi-iname", "iqn."),
        ("nsenter,--mount=/proc/1/ns/mnt,/usr/local/sbin/fstrim,--version", "fstrim from util-linux"),
        ("lsblk,--version", "lsblk from util-linux"),
    ],
)
def test_a_privileged_container_calls_the_nodes_tools(cluster: Cluster, argv: str, text: str) -> None:
    [archive] = image_archives().glob("debug-*.tar")
    command = f"chroot,/host,/usr/local/sbin/{argv}"
    done = cluster.talosctl("-n", cluster.addresses[0], "debug", str(archive), "--args", command, check=False)
    assert text in done.stdout, (done.stdout, done.stderr)


def test_a_service_follows_its_config(cluster: Cluster) -> None:
    for who, text in (("somebody", "first"), ("somebody-else", "second")):
        cluster.talosctl("patch", "machineconfig", "--patch", CONFIG.format(who=who, text=text))
        eventually(f"it runs with {text}", lambda who=who, text=text: check_log(cluster, who, text))
    for action, state in (("stop", "Finished"), ("start", "Running")):
        cluster.talosctl("service", ID, action)
        eventually(f"after {action}", lambda state=state: check_state(cluster, ID, state, ""))


def check_log(cluster: Cluster, who: str, text: str) -> None:
    log = cluster.talosctl("logs", ID, check=False).stdout
    assert text in log, log
    assert f"cannot open '/data/{who}'" in log, log
