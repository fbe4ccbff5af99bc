"""Facts about the control plane's static pods, for who makes the pods and who writes their files."""

from collections.abc import Mapping

API_SERVER, CONTROLLER_MANAGER, SCHEDULER = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
SECRETS, CONFIGS = "/system/secrets/kubernetes", "/system/config/kubernetes"
"""Folders with one for each program."""
UIDS: Mapping[str, int] = {API_SERVER: 65534, CONTROLLER_MANAGER: 65535, SCHEDULER: 65536}
"""Who runs each program and owns its files, as upstream."""
