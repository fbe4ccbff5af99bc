"""Settings of volumes that can't be, each with its place and the remedy."""

import pytest

from talos.config.check.validate import validate
from talos.config.read.loader import load

MAIN = "version: v1alpha1\nmachine:\n  type: worker\n  token: abc\n"


def find_errors(text: str) -> list[str]:
    return [str(problem) for problem in validate(load(text.encode()), partial=True).errors]


@pytest.mark.parametrize(
    ("encryption", "path", "message"),
    [
        (
            "keys: [{slot: 0, tpm: {options: {pcrs: [7, 24]}}}]",
            "keys[0].tpm.options.pcrs[1]",
            "24 is out of range (from 0 to 23)",
        ),
        (
            "keys: [{slot: 0, kms: {}}]",
            "keys[0].kms.endpoint",
            "is missing (https://HOST or grpc://HOST:PORT)",
        ),
        ("keys: [{slot: 0, kms: {endpoint: 'grpc://x'}}]", "keys[0].kms.endpoint", "it has no port"),
        ("keys: [{slot: 0, kms: {endpoint: 'https://x/y'}}]", "keys[0].kms.endpoint", "it is no URL with"),
        ("keys: [{slot: 0, static: {}}]", "keys[0].static.passphrase", "is missing"),
        ("keys: [{slot: 32, nodeID: {}}]", "keys[0].slot", "32 is out of range (from 0 to 31)"),
        ("keys: [{slot: 0, nodeID: {}}], options: [fast]", "options[0]", '"fast" is not known (one of: '),
    ],
)
def test_an_encryption_that_can_not_be_made(encryption: str, path: str, message: str) -> None:
    (error,) = find_errors(
        "apiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\n"
        f"encryption: {{provider: luks2, {encryption}}}\n"
    )
    assert f"encryption.{path}" in error
    assert message in error


def test_an_encryption_that_is_set_twice() -> None:
    old = "  systemDiskEncryption: {state: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}}\n"
    new = (
        "---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: STATE\n"
        "encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}\n"
    )
    alone = [*find_errors(MAIN + old), *find_errors(MAIN + new)]
    assert not any("Encryption" in error for error in alone)
    (error,) = (error for error in find_errors(MAIN + old + new) if "Encryption" in error)
    assert "systemDiskEncryption.state: is also set by VolumeConfig STATE (keep VolumeConfig)" in error


@pytest.mark.parametrize("key", ["mount", "encryption"])
def test_what_is_for_a_partition_is_refused_for_a_folder(key: str) -> None:
    value = {"mount": "{}", "encryption": "{provider: luks2, keys: [{slot: 0, nodeID: {}}]}"}[key]
    document = f"apiVersion: v1alpha1\nkind: VolumeConfig\nname: ETCD\n{key}: {value}\n"
    (error,) = find_errors(document)
    text = f'{key} config for the "ETCD" volume is only supported when it is provisioned onto a dedicated'
    assert f"{text} partition" in error
    assert not find_errors(f"{document}provisioning: {{minSize: 2GiB}}\n")
