"""What a test is about: the files that Nix built, by name. A test sees those that it lists in ``ASSETS``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.failure import VmTestError


@dataclass(frozen=True, slots=True)
class Assets:
    """Paths by name: kernel, initramfs, iso, disk-image, netboot, ..."""

    paths: Mapping[str, Path]

    def path(self, name: str) -> Path:
        """Where an asset is."""
        if name not in self.paths:
            known = ", ".join(self.paths) or "none"
            raise VmTestError(f'the asset "{name}" is not in the test\'s ASSETS, which are {known}')
        return self.paths[name]
