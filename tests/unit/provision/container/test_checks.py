"""Checks before a container starts."""

from pathlib import Path

import pytest

from talos.provision.container.checks import check_image
from talos.system.errors import UserError


def test_an_image_is_looked_at(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with pytest.raises(UserError, match="No such file"):
        check_image(image)
    image.write_bytes(b"\x7fELF")
    with pytest.raises(UserError, match=r"no squashfs image.*make build, "):
        check_image(image)
    image.write_bytes(b"hsqs....")
    check_image(image)
