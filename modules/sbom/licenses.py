"""Licences as SPDX expressions: from Debian's copyright files, wheels' METADATA, Go modules' texts."""

import re
import tarfile
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path

UNKNOWN = "NOASSERTION"
FORMAT = "https://www.debian.org/doc/packaging-manuals/copyright-format"
"""How a copyright file begins that machines can read."""
KNOWN = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "artistic-2.0": "Artistic-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "boost-1.0": "BSL-1.0",
    "bsl-1.0": "BSL-1.0",
    "cc0": "CC0-1.0",
    "cc0-1.0": "CC0-1.0",
    "expat": "MIT",
    "gpl-2+ with autoconf exception": "GPL-2.0-or-later WITH Autoconf-exception-2.0",
    "isc": "ISC",
    "mit": "MIT",
    "mpl-2.0": "MPL-2.0",
    "openssl": "OpenSSL",
    "psf-2": "Python-2.0",
    "python-2.0": "Python-2.0",
    "unicode-dfs-2016": "Unicode-DFS-2016",
    "zlib": "Zlib",
    "zpl-2.1": "ZPL-2.1",
}
"""Names that Debian's files use, in lower case."""
GNU = re.compile(r"(?P<name>[AL]?GPL|GFDL)-?v?(?P<major>\d)(?:\.(?P<minor>\d))?(?P<later>\+)?", re.IGNORECASE)
PHRASES = (
    ("Apache License", "Version 2.0", "Apache-2.0"),
    ("Mozilla Public License", "2.0", "MPL-2.0"),
    ("Redistribution and use", "either the name", "BSD-3-Clause"),
    ("Redistribution and use", "", "BSD-2-Clause"),
    ("Permission is hereby granted, free of charge", "", "MIT"),
    ("Permission to use, copy, modify, and", "distribute this software", "ISC"),
)
"""What two parts of a licence's text show which one it is; the first row that fits counts."""
CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.0-or-later",
}
EXPRESSION = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")
DOC_DEPTH = 4
"""Of usr/share/doc/NAME."""
TEXTS = re.compile(r"[^/]+[.]dist-info/(?:licenses/.*|LICEN[CS]E[^/]*|COPYING[^/]*|NOTICE[^/]*)")


def to_spdx(name: str) -> str:
    """Return the SPDX identifier of a licence that Debian names; its own name where there is none."""
    name = " ".join(name.split())
    if known := KNOWN.get(name.lower()):
        return known
    if match := GNU.fullmatch(name):
        which = "or-later" if match["later"] else "only"
        return f"{match['name'].upper()}-{match['major']}.{match['minor'] or 0}-{which}"
    return f"LicenseRef-{re.sub('[^A-Za-z0-9.-]+', '-', name).strip('-')}"


def parse_names(line: str) -> str:
    """Turn the first line of a License field into an expression: `GPL-2+ or Artistic, and Expat`."""
    all_of: list[str] = []
    for part in re.split(r",?\s+and\s+|,\s+(?!or\b)", line.strip()):
        any_of = [to_spdx(word) for word in re.split(r",?\s+or\s+|\s*[|]\s*", part) if word]
        all_of += [f"({' OR '.join(any_of)})" if len(any_of) > 1 else any_of[0]] if any_of else []
    return join(all_of)


def join(expressions: Iterable[str]) -> str:
    """Join expressions that all hold, each once."""
    return " AND ".join(sorted(set(expressions)))


def of_copyright(text: str) -> str:
    """Return the licences that a copyright file names for the files of its source."""
    if FORMAT not in text.partition("\n\n")[0].replace("http://", "https://"):
        return UNKNOWN
    stanzas = [part for part in re.split(r"\n\s*\n(?=\S)", text) if re.search(r"^Files:", part, re.MULTILINE)]
    fields = (re.search(r"^Licen[cs]e:[ \t]*(\S[^\n]*)", part, re.MULTILINE) for part in stanzas)
    return join(filter(None, (parse_names(field[1]) for field in fields if field))) or UNKNOWN


def read_copyrights(archive: tarfile.TarFile) -> dict[str, str]:
    """Read the copyright files in a Debian package, by package; a link is "-> " and the package it names."""
    found: dict[str, str] = {}
    for member in archive:
        parts = member.name.removeprefix("./").split("/")
        if parts[:3] != ["usr", "share", "doc"]:
            continue
        if member.issym() and len(parts) == DOC_DEPTH:
            found[parts[3]] = f"-> {member.linkname.rsplit('/', 1)[-1]}"
        elif member.issym() and parts[4:] == ["copyright"]:
            found[parts[3]] = f"-> {Path(member.linkname).parts[-2]}"
        elif parts[4:] == ["copyright"] and (file := archive.extractfile(member)):
            found[parts[3]] = file.read().decode(errors="replace")
    return found


def of_wheel(path: Path) -> tuple[str, str]:
    """Return a wheel's licence, and the texts in it."""
    with zipfile.ZipFile(path) as wheel:
        (metadata,) = (n for n in wheel.namelist() if re.fullmatch(r"[^/]+[.]dist-info/METADATA", n))
        head = HeaderParser().parsestr(wheel.read(metadata).decode(errors="replace"))
        texts = [
            wheel.read(n).decode(errors="replace") for n in sorted(wheel.namelist()) if TEXTS.fullmatch(n)
        ]
    stated = str(head["License-Expression"] or head["License"] or "").strip()
    classified = join(CLASSIFIERS[c] for c in head.get_all("Classifier", []) if c in CLASSIFIERS)
    if head["License-Expression"]:
        expression = stated
    elif "\n" not in stated and EXPRESSION.fullmatch(stated):
        expression = KNOWN.get(stated.lower(), stated)
    else:
        expression = classified or (to_spdx(stated.partition("\n")[0]) if stated else UNKNOWN)
    return expression, "\n\n".join(texts)


def of_module(path: Path) -> tuple[str, str]:
    """Return the licence of a Go module, by the text in its archive's first folder, and that text."""
    with zipfile.ZipFile(path) as archive:
        top = {n: n.partition("@")[2].partition("/")[2] for n in archive.namelist()}
        names = sorted(
            n
            for n, inside in top.items()
            if re.fullmatch(r"(LICEN[CS]E|COPYING)[^/]*", inside, re.IGNORECASE)
        )
        texts = [archive.read(name).decode(errors="replace") for name in names]
    return join(filter(None, map(of_text, texts))) or UNKNOWN, "\n\n".join(texts)


def of_text(text: str) -> str:
    """Recognize a licence by its text; empty where it is none of the usual ones."""
    words = " ".join(text.split())
    return next((name for first, second, name in PHRASES if first in words and second in words), "")
