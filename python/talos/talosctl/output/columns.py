"""Columns of control groups: the presets, and those of a schema file."""

import re
from collections.abc import Callable, Mapping
from typing import cast

from talos.api.durations import format_nanoseconds
from talos.system.errors import UserError
from talos.system.sizes import format_size
from talos.talosctl.client.cgroups import Group
from talos.talosctl.output.yaml_text import parse_yaml

UNSET = "unset"

type Value = Callable[[Group, Group | None, Mapping[int, str]], str]
"""The cell of a group, from itself, the group above (None for the root) and the processes' names by id."""


def _text(file: str) -> Value:
    return lambda group, _parent, _names: group.text(file) or UNSET


def _size(file: str) -> Value:
    def value(group: Group, _parent: Group | None, _names: Mapping[int, str]) -> str:
        number = group.number(file)
        return format_size(number) if number is not None else group.text(file) or UNSET

    return value


def _ratio(file: str, of: str) -> Value:
    def value(group: Group, _parent: Group | None, _names: Mapping[int, str]) -> str:
        return _percent(group.number(file), group.number(of))

    return value


def _quotient(file: str, of: str) -> Value:
    ratio = _ratio(file, of)
    return lambda group, parent, names: ratio(group, parent, names).removesuffix("%")


def _time(file: str, key: str) -> Value:
    return lambda group, _parent, _names: _format_microseconds(group.flat(file).get(key, 0))


def _share(file: str, key: str) -> Value:
    def value(group: Group, parent: Group | None, _names: Mapping[int, str]) -> str:
        return "-" if parent is None else _percent(group.flat(file).get(key), parent.flat(file).get(key))

    return value


def _pressure(file: str, line: str, key: str) -> Value:
    def value(group: Group, _parent: Group | None, _names: Mapping[int, str]) -> str:
        text = group.nested(file).get(line, {}).get(key, "")
        return _format_microseconds(int(text)) if key == "total" and text else text or UNSET

    return value


def _disks(first: str, second: str, form: Callable[[int], str]) -> Value:
    def value(group: Group, _parent: Group | None, _names: Mapping[int, str]) -> str:
        rows = group.nested("io.stat").items()
        return " ".join(
            f"{disk}: {form(int(row.get(first, 0)))}/{form(int(row.get(second, 0)))}"
            for disk, row in rows
            if row
        )

    return value


def _count(file: str) -> Value:
    return lambda group, _parent, _names: str(len(group.members(file)))


def _processes(group: Group, parent: Group | None, names: Mapping[int, str]) -> str:
    # The root's are the kernel's threads.
    pids = () if parent is None else group.members("cgroup.procs")
    return " ".join(f"{pid}({names.get(pid, '?')})" for pid in pids)[:50]


def _percent(part: int | None, whole: int | None) -> str:
    return f"{100 * part / whole:.2f}%" if part is not None and whole else "-"


def _format_microseconds(count: int) -> str:
    return format_nanoseconds(count * 1000)


PRESETS: Mapping[str, tuple[tuple[str, Value], ...]] = {
    "cpu": (
        ("CpuWeight", _text("cpu.weight")),
        ("CpuNice", _text("cpu.weight.nice")),
        ("CpuMax", _text("cpu.max")),
        ("CpuUser", _time("cpu.stat", "user_usec")),
        ("User/%", _share("cpu.stat", "user_usec")),
        ("CpuSystem", _time("cpu.stat", "system_usec")),
        ("System/%", _share("cpu.stat", "system_usec")),
        ("Throttled", _time("cpu.stat", "throttled_usec")),
    ),
    "cpuset": (
        ("CpuSet", _text("cpuset.cpus")),
        ("CpuSet(Eff)", _text("cpuset.cpus.effective")),
        ("Mems", _text("cpuset.mems")),
        ("Mems(Eff)", _text("cpuset.mems.effective")),
    ),
    "io": (
        ("Bytes Read/Written", _disks("rbytes", "wbytes", format_size)),
        ("ios Read/Write", _disks("rios", "wios", str)),
        ("PressAvg10", _pressure("io.pressure", "some", "avg10")),
        ("PressAvg60", _pressure("io.pressure", "some", "avg60")),
        ("PressTotal", _pressure("io.pressure", "some", "total")),
    ),
    "memory": (
        ("MemCurrent", _size("memory.current")),
        ("MemPeak", _size("memory.peak")),
        ("MemLow", _size("memory.low")),
        ("Peak/Low", _ratio("memory.peak", "memory.low")),
        ("MemHigh", _size("memory.high")),
        ("MemMin", _size("memory.min")),
        ("Current/Min", _ratio("memory.current", "memory.min")),
        ("MemMax", _size("memory.max")),
    ),
    "process": (
        ("PidsCurrent", _text("pids.current")),
        ("PidsPeak", _text("pids.peak")),
        ("PidsMax", _text("pids.max")),
        ("Procs", _count("cgroup.procs")),
        ("Threads", _count("cgroup.threads")),
        ("Processes", _processes),
    ),
    "psi": (
        ("MemCurrent", _size("memory.current")),
        ("MemPsiSome10", _pressure("memory.pressure", "some", "avg10")),
        ("MemPsi10", _pressure("memory.pressure", "full", "avg10")),
        ("CpuPsi10", _pressure("cpu.pressure", "full", "avg10")),
        ("IoPsi10", _pressure("io.pressure", "full", "avg10")),
    ),
    "swap": (
        ("SwapCurrent", _size("memory.swap.current")),
        ("SwapPeak", _size("memory.swap.peak")),
        ("SwapHigh", _size("memory.swap.high")),
        ("SwapMax", _size("memory.swap.max")),
    ),
}

_FIELDS = {
    "CPUSet": "cpuset",
    "CPUs": "cpus",
    "CPU": "cpu",
    "IO": "io",
}
_WORD = re.compile(r"CPUSet|CPUs|CPU|IO|[A-Z][a-z]*")
_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_PIPELINE = re.compile(r'\.([\w.]+)(?:\s+\.([\w.]+))?(?:\s*\|\s*printf\s+"(%-?\d*s(?:%%)?)")?')


def read_schema(text: str, source: str) -> tuple[tuple[str, Value], ...]:
    """The columns of a schema file: ``columns``, each with a ``name`` and a ``template``."""
    document = parse_yaml(text, source=source)
    columns = cast("dict[str, object]", document).get("columns") if isinstance(document, dict) else None
    if not isinstance(columns, list) or not columns:
        raise UserError("it has no columns", where=source, hint="columns: [{name: …, template: …}]")
    found: list[tuple[str, Value]] = []
    for column in cast("list[object]", columns):
        row = cast("dict[str, object]", column) if isinstance(column, dict) else {}
        name, template = row.get("name"), row.get("template")
        if not isinstance(name, str) or not isinstance(template, str):
            raise UserError("a column needs a name and a template", where=source)
        found.append((name, _template(template, f"{source}: {name}")))
    return tuple(found)


def _template(template: str, where: str) -> Value:
    parts: list[Value] = []
    position = 0
    for action in _ACTION.finditer(template):
        pipeline = _PIPELINE.fullmatch(action[1])
        if pipeline is None:
            hint = 'use {{ .MemoryCurrent.HumanizeIBytes | printf "%8s" }} and the like'
            raise UserError(f"{action[0]} can't be read", where=where, hint=hint)
        # The table aligns its columns itself, so a width is ignored; a percent sign behind it is kept.
        after = "%" if (pipeline[3] or "").endswith("%%") else ""
        parts += [
            _literal(template[position : action.start()]),
            _pipeline(pipeline[1], pipeline[2] or "", where),
            _literal(after),
        ]
        position = action.end()
    parts.append(_literal(template[position:]))

    def value(group: Group, parent: Group | None, names: Mapping[int, str]) -> str:
        return "".join([part(group, parent, names) for part in parts]).strip()

    return value


def _literal(text: str) -> Value:
    return lambda _group, _parent, _names: text


def _pipeline(path: str, argument: str, where: str) -> Value:
    first, *rest = path.split(".")
    file = _file_of(first)
    match rest:
        case []:
            return _text(file)
        case ["HumanizeIBytes"]:
            return _size(file)
        case ["DivideBy"] if argument:
            return _quotient(file, _file_of(argument))
        case [key, "UsecToDuration"]:
            return _time(file, key)
        case [key]:
            return lambda group, _parent, _names: str(group.flat(file).get(key, UNSET))
        case [line, key]:
            return _pressure(file, line, key)
        case [line, "total", "UsecToDuration"]:
            return _pressure(file, line, "total")
        case _:
            raise UserError(f".{path} can't be read", where=where)


def _file_of(name: str) -> str:
    """``MemorySwapCurrent`` is memory.swap.current."""
    return ".".join(_FIELDS.get(word[0], word[0].lower()) for word in _WORD.finditer(name))
