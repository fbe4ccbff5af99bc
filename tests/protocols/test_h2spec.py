"""h2spec, which is not of this project, against apid's port and trustd's.

What it may not pass is the table of docs/conformance.md, for both: a row more or less is a failure.
"""

import asyncio
import os
import ssl
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.unit.apid.raw_clients import answer, client_context
from tests.unit.apid.world import VERSION, Pki, node
from tests.unit.trustd.test_server import METHOD, Trust

from .forwarder import forward

PROGRAM = os.environ.get("H2SPEC", "")
TABLE = Path(__file__).parents[2] / "docs/conformance.md"
ANSWER_TIMEOUT = 2
"""Seconds that h2spec waits for what it expects."""
COUNT = 146

pytestmark = pytest.mark.skipif(not PROGRAM, reason="H2SPEC names no program: make protocols")

type Row = tuple[str, str, str]
"""Section, description, result."""


def read_table() -> set[Row]:
    """The rows of the document, whose table has four columns; that of gRPC's suite has three."""
    rows = ([cell.strip(" `") for cell in line.split("|")] for line in TABLE.read_text().splitlines())
    return {(row[1], row[2], row[3]) for row in rows if len(row) == 6 and "/" in row[1]}


async def find_failures(port: int, context: ssl.SSLContext, path: str, report: Path) -> set[Row]:
    """What h2spec has not passed."""
    async with forward(port, context) as forwarded:
        where = ("-h", "127.0.0.1", "-p", str(forwarded), "-P", path)
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            "--strict",
            "-o",
            str(ANSWER_TIMEOUT),
            "-j",
            str(report),
            *where,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    assert len(cases) == COUNT, output.decode()
    return {
        (
            case.get("package", ""),
            case.get("classname", ""),
            "skipped" if outcome.tag == "skipped" else "failed",
        )
        for case in cases
        for outcome in case
    }


def test_apid(tmp_path: Path) -> None:
    async def main() -> set[Row]:
        pki = Pki()
        async with node(tmp_path / "node", pki, answer) as a:
            context = client_context(pki, pki.client("os:admin"))
            return await find_failures(a.port, context, VERSION, tmp_path / "report.xml")

    assert asyncio.run(main()) == read_table()


def test_trustd(tmp_path: Path) -> None:
    async def main() -> set[Row]:
        trust = Trust()
        async with trust.serve():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=trust.ca.crt.decode())
            context.set_alpn_protocols(["h2"])
            return await find_failures(trust.port, context, METHOD, tmp_path / "report.xml")

    assert asyncio.run(main()) == read_table()
