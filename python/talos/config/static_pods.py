"""Facts about static pods, for the daemon that makes them and the one that writes their files."""

from collections.abc import Mapping

API_SERVER, CONTROLLER_MANAGER, SCHEDULER = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
SECRETS, CONFIGS = "/system/secrets/kubernetes", "/system/config/kubernetes"
"""Folders with one for each program."""
NAMESPACE = "kube-system"
"""That of the control plane's pods."""
MANIFESTS = "/etc/kubernetes/static-pods"
"""The folder with a file for each pod that the user wrote."""
UIDS: Mapping[str, int] = {API_SERVER: 65534, CONTROLLER_MANAGER: 65535, SCHEDULER: 65536}
"""The control plane's pods, and who runs each program and owns its files, as upstream."""
