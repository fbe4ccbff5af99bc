"""New certificates while connections are open: on a control plane node by itself, on a worker by trustd."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from cryptography import x509
from tests.harness.cluster import NODE_TIMEOUT, Cluster, eventually

from talos.system.process import start_command

NAME = "added.example.org"
CHANGED = b"the API certificates changed"


def names_of(address: str) -> list[str]:
    """The names in the certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((address, 50000), timeout=5) as plain, context.wrap_socket(plain) as tls:
        certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


@contextmanager
def following(cluster: Cluster, address: str) -> Generator["subprocess.Popen[bytes]"]:
    """Follow apid's log over apid itself."""
    command = cluster.command("-e", address, "-n", address, "logs", "apid", "-f")
    process = start_command(command, stdout=subprocess.PIPE, env=cluster.environment)
    timer = threading.Timer(NODE_TIMEOUT, process.kill)
    timer.start()
    try:
        # Leaving closes its output.
        with process:
            yield process
            process.kill()
    finally:
        timer.cancel()
        process.kill()


@pytest.mark.parametrize("number", [0, 2], ids=["control plane", "worker"])
def test_an_open_call_outlives_a_new_certificate(cluster: Cluster, number: int) -> None:
    address = cluster.addresses[number]
    with following(cluster, address) as process:
        assert process.stdout is not None
        while CHANGED not in (line := process.stdout.readline()):
            assert line, "the log has ended"
        assert NAME not in names_of(address)
        patch = f'{{"machine": {{"certSANs": ["{NAME}"]}}}}'
        cluster.talosctl(
            "-e", address, "-n", address, "patch", "machineconfig", "-m", "no-reboot", "-p", patch
        )

        def is_renewed() -> None:
            assert NAME in names_of(address)

        eventually("new connections get the new certificate", is_renewed)
        # The call that was open before reports the change, so it has outlived it.
        while CHANGED not in (line := process.stdout.readline()):
            assert line, "the call has ended"
