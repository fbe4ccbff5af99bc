"""Tests on three control plane nodes; a package, so that their cluster ends with them."""
