"""The kernel's counters as resources."""

from talos.machined.controllers.perf.stats import read_cpu, read_memory
from talos.testing.files import MemoryFiles

FILES = MemoryFiles(
    {
        "/proc/stat": "cpu  200 0 100 0 0 0 0 0 0 0\ncpu0 200 0 100 0 0 0 0 0 0 0\nctxt 7\nprocesses 3\n",
        "/proc/meminfo": (
            "MemTotal: 100 kB\nMemFree: 30 kB\nActive(anon): 5 kB\nDirectMap4k: 8 kB\nNew: 1 kB\n"
        ),
    }
)


def test_processors() -> None:
    spec = read_cpu(FILES)
    assert (spec.cpu_total.user, spec.cpu_total.system, len(spec.cpu)) == (2.0, 1.0, 1)
    assert (spec.context_switches, spec.process_created) == (7, 3)


def test_memory() -> None:
    spec = read_memory(FILES)
    assert (spec.mem_total, spec.mem_used, spec.active_anon, spec.direct_map4k) == (100, 70, 5, 8)
