"""How a table of all nodes grows with the fleet: talosctl's own processor time and memory.

Each node's answer, which is made up here, has all members of its cluster, as `talosctl -n @all get members`
shows them: the table has the square of the nodes. Calls are not in it: each takes the client the same.
"""

import os
import time
from collections.abc import Sequence

from tests.bench.report import Table
from tests.harness.credentials import resident

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Metadata, Resource, Spec
from talos.api.cosi.state_pb2 import ListResponse
from talos.resource.kinds import MEMBER
from talos.talosctl.output.resource import table_header, table_row
from talos.talosctl.output.table import format_lines

SIZES = [int(size) for size in os.environ.get("BENCH_FLEET", "10,100,500").split(",")]
DEFINITION = ResourceDefinitionSpec(
    resource_type=MEMBER.type,
    display_type=MEMBER.display_type,
    print_columns=[
        ResourceDefinitionSpec.PrintColumn(name=column.name, json_path=column.path)
        for column in MEMBER.columns
    ],
)
SPEC = """\
nodeId: {number:043x}
addresses:
    - 10.0.{high}.{low}
hostname: worker-{number}
machineType: worker
operatingSystem: Talos (v1.15.0-alpha.0)
"""


def make_answer(size: int) -> list[bytes]:
    """The replies of one node."""
    return [
        ListResponse(
            resource=Resource(
                metadata=Metadata(
                    namespace=MEMBER.namespace, type=MEMBER.type, id=f"worker-{number}", version="1"
                ),
                spec=Spec(yaml_spec=SPEC.format(number=number, high=number >> 8, low=number & 255)),
            )
        ).SerializeToString()
        for number in range(size)
    ]


def make_rows(node: str, answer: Sequence[bytes]) -> list[tuple[str, ...]]:
    """What `get` keeps of a node's answer."""
    return [table_row(node, ListResponse.FromString(reply).resource, DEFINITION) for reply in answer]


def test_table_growth() -> None:
    table = Table("talosctl get members of all nodes", ("rows", "s", "µs a row", "MB shown", "MiB"))
    for size in SIZES:
        answer = make_answer(size)
        before, began = resident(os.getpid()), time.process_time()
        rows = [table_header(DEFINITION, is_watch=False)]
        for node in range(size):
            rows += make_rows(f"10.0.{node >> 8}.{node & 255}", answer)
        shown = sum(map(len, format_lines(rows)))
        used = time.process_time() - began
        table.add(
            f"{size} nodes",
            f"{size * size:,}",
            f"{used:.3f}",
            f"{1e6 * used / size / size:.0f}",
            f"{shown / 1e6:.2f}",
            f"{resident(os.getpid()) - before:.0f}",
        )
    table.show()
