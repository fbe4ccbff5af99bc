"""Machine configs for tests, made by talosctl as a user would."""

import os
from pathlib import Path

from driver.process import run

ENDPOINT = "https://10.0.2.15:6443"
"""The address that QEMU's network gives to its one machine."""
SECRETS = "secrets.yaml"

KUBERNETES = (
    "KubeAPIServerCAConfig", "KubeAPIServerConfig", "KubeAggregatorCAConfig", "KubeAuditPolicyConfig",
    "KubeAuthenticationConfig", "KubeClusterConfig", "KubeControllerManagerConfig", "KubeCoreDNSConfig",
    "KubeEtcdEncryptionConfig", "KubeFlannelCNIConfig", "KubeNetworkConfig", "KubeNodeConfig",
    "KubePrismConfig", "KubeProxyConfig", "KubeSchedulerConfig", "KubeServiceAccountConfig", "KubeletConfig",
)  # fmt: skip
"""Documents of a generated config that are left out."""
NO_KUBERNETES = "---\n".join(f"apiVersion: v1alpha1\nkind: {kind}\n$patch: delete\n" for kind in KUBERNETES)
"""The patch that leaves them out."""
FROM_CACHE = (
    "apiVersion: v1alpha1\nkind: ImageCacheConfig\nlocal: {enabled: true}\n",
    "apiVersion: v1alpha1\nkind: VolumeConfig\nname: IMAGECACHE\n",
    "apiVersion: v1alpha1\nkind: TimeSyncConfig\nenabled: false\n",
)
"""Patches with which a machine without a network takes images from the medium that it was installed from."""


class Cluster:
    """Secrets, configs and a talosconfig of one cluster."""

    def __init__(self, talosctl: Path, folder: Path, name: str = "vm", endpoint: str = ENDPOINT) -> None:
        """Generate the secrets, unless they are there."""
        self._talosctl, self._folder, self._name = talosctl, folder, name
        self._endpoint = endpoint
        folder.mkdir(parents=True, exist_ok=True)
        self.secrets = folder / SECRETS
        if not self.secrets.exists():
            self._run("gen", "secrets", "--output-file", str(self.secrets))
        self.talosconfig = folder / "talosconfig"
        self._generate("talosconfig", self.talosconfig)

    def _run(self, *arguments: str) -> None:
        home = {"HOME": str(self._folder), "PATH": os.environ.get("PATH", ""), "NO_COLOR": "1"}
        run([str(self._talosctl), *arguments], env=home)

    def _generate(self, kind: str, path: Path, *arguments: str) -> None:
        base = ("gen", "config", self._name, self._endpoint, "--with-secrets", str(self.secrets), "--force")
        sans = ("--additional-sans", "127.0.0.1")
        self._run(*base, *sans, "--output-types", kind, "--output", str(path), *arguments)

    def config(
        self, *patches: str, kind: str = "controlplane", disk: str = "/dev/none", kubernetes: str = ""
    ) -> Path:
        """A complete config; patches are YAML. ``kubernetes`` is a version of its images."""
        path = self._folder / f"{kind}-{len(list(self._folder.glob('*.yaml')))}.yaml"
        arguments = [word for patch in patches for word in ("--config-patch", patch)]
        if kubernetes:
            arguments += ["--kubernetes-version", kubernetes]
        self._generate(kind, path, "--install-disk", disk, *arguments)
        return path
