"""Checks of what a config says about the cluster."""

import base64
import re
from collections.abc import Iterator

from talos.config import effective
from talos.config.check.machine import check_authority, check_certificate
from talos.config.check.note import Note
from talos.config.documents.cluster.discovery_identity import DiscoveryIdentityConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.cluster import KubeClusterConfig
from talos.config.documents.kubernetes.service_account import KubeServiceAccountConfig
from talos.config.model import Config
from talos.pki.keys import parse_key
from talos.system.errors import UserError

_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_SECRET_BYTES = 32


def check_cluster(config: Config) -> Iterator[Note]:
    """Endpoint, tokens, authorities and secrets of the cluster."""
    yield from _check_secret(config)
    if not _has_kubernetes(config):
        return
    if effective.cluster_endpoint(config) is None:
        hint = "add KubeClusterConfig with clusterName and endpoint"
        yield Note("the URL of the Kubernetes API is missing", config.main, "cluster", hint=hint)
    token = effective.bootstrap_token(config)
    if token and not _TOKEN.fullmatch(token):
        hint = "six characters, a dot, sixteen: [a-z0-9]"
        yield Note("is no bootstrap token", config.main, "cluster.token", hint=hint)
    yield from _check_authorities(config)
    if config.machine_type.is_control_plane:
        yield from _check_service_account(config)


def _has_kubernetes(config: Config) -> bool:
    cluster = config.cluster
    legacy = cluster and (cluster.control_plane or cluster.ca or cluster.token)
    return bool(legacy) or config.find(KubeClusterConfig) is not None


def _check_authorities(config: Config) -> Iterator[Note]:
    document = config.find(KubeAPIServerCAConfig)
    at = Note("", document or config.main, "issuingCA" if document else "cluster.ca")
    pair = effective.kubernetes_ca(config)
    if pair is None:
        yield Note("the authority of the Kubernetes API is missing", hint="add KubeAPIServerCAConfig")
    elif pair.key:
        yield from check_authority(pair.crt, pair.key, at)
    elif config.machine_type.is_control_plane:
        yield Note("has no key", at.document, at.path, hint="control plane nodes issue certificates")
    else:
        yield from check_certificate(pair.crt, at)
    etcd = effective.etcd_ca(config)
    if etcd is not None:
        yield from check_authority(etcd.crt, etcd.key, Note("", config.main, "cluster.etcd.ca"))
    elif config.machine_type.is_control_plane:
        yield Note("is missing", config.main, "cluster.etcd.ca", hint="the authority of etcd")


def _check_service_account(config: Config) -> Iterator[Note]:
    document = config.find(KubeServiceAccountConfig)
    path = "issuer.privateKey" if document else "cluster.serviceAccount"
    try:
        parse_key(effective.service_account_key(config))
    except UserError as error:
        yield Note(error.message, document or config.main, path, hint=error.hint)


def _check_secret(config: Config) -> Iterator[Note]:
    secret = effective.cluster_secret(config)
    if not secret:
        return
    document = config.find(DiscoveryIdentityConfig)
    try:
        length = len(base64.b64decode(secret, validate=True))
    except ValueError:
        length = 0
    if length != _SECRET_BYTES:
        path = "clusterSecret" if document else "cluster.secret"
        hint = f"base64 of {_SECRET_BYTES} bytes"
        yield Note("is no cluster secret", document or config.main, path, hint=hint)
