"""Write the bill of materials of a composition, $out: that of the system, $sbom, and those of $extensions.

$product and $version name it.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from spdx import make_document

DOCUMENTS = "rootfs/usr/local/share/spdx"
"""Where an extension has its own."""


def merge(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The packages of all documents but those that they describe; one that several have is there once."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        links = document.get("relationships", ())
        products = {link["relatedSpdxElement"] for link in links if link["relationshipType"] == "DESCRIBES"}
        for package in document["packages"]:
            name, version = package["SPDXID"], package.get("versionInfo", "")
            if name in products:
                continue
            if name in found and found[name].get("versionInfo", "") != version:
                name += "-" + re.sub("[^A-Za-z0-9.-]", "-", version)
            found.setdefault(name, {**package, "SPDXID": name})
    return list(found.values())


def main() -> None:
    """Write $out."""
    paths = [Path(os.environ["sbom"])]
    for extension in os.environ["extensions"].split():
        paths += sorted(Path(extension, DOCUMENTS).glob("*.spdx.json"))
    packages = merge([json.loads(path.read_text(encoding="utf-8")) for path in paths])
    document = make_document(os.environ["product"], os.environ["version"], packages)
    Path(os.environ["out"]).write_text(
        json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
