"""Where extensions have pieces of the configuration of Kubernetes' containerd, as upstream's do."""

PARTS = "/etc/cri/conf.d"
PART = ".part"
"""How the names of pieces end."""
