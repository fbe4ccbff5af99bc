"""Where a node keeps what its member of etcd reads."""

DATA = "/var/lib/etcd"
SECRETS = "/system/secrets/etcd"
"""Certificates and keys: PID 1 writes them, etcd's arguments name them, its container sees them."""
