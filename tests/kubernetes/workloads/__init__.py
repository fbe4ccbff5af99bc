"""What people install on a cluster, by its own manifests; a package, so that their cluster ends with them."""
