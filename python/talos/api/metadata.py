"""Keys of a call's metadata, and roles, as they stand on the wire and in certificates."""

ROLE = "talos-role"
"""The caller's roles; between nodes only a caller with the role IMPERSONATOR may name others."""
NODE = "node"
"""The node that a call is proxied to."""
NODES = "nodes"
"""The nodes that a call is proxied to."""
PROXY_FROM = "proxyfrom"
"""Set by an apid that has proxied a call: it must not be proxied again."""

CALLER, REACHED = "talos-caller", "talos-reached"
"""Addresses of a call's connection, the client's and the node's own; apid sets them for its own node."""

ADMIN = "os:admin"
OPERATOR = "os:operator"
READER = "os:reader"
ETCD_BACKUP = "os:etcd:backup"
IMPERSONATOR = "os:impersonator"
"""The role of a node's own apid when it calls another node."""
UPGRADE = "os:upgrade"
"""What upgrades nodes, and does nothing else: a role of this system, ``api/own_roles.tsv``."""
ROLES = (ADMIN, OPERATOR, READER, ETCD_BACKUP, IMPERSONATOR, UPGRADE)
"""Roles that a client certificate may be issued for on request."""
