"""Write docs/reference from what the code holds, or with --check compare it.

config/       every kind of document: its fields, types, defaults, effects, and the example of docs/examples
commands.md   every command of talosctl
resources.md  every kind of resource, with its columns
metrics.md    every family of metrics
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from talos.config import values
from talos.config.check.readers import UNREAD_KINDS, UNREAD_SETTINGS
from talos.config.documents.registry import MODULES, document_type
from talos.config.schema import INT32, UINT32, UINT64, Applies, Field, Form, Section, Shape, fields_of
from talos.resource.builtin import NAMESPACES
from talos.resource.kinds import REGISTRY
from talos.resource.unwritten import UNWRITTEN
from talos.talosctl.cli.command import HELP, Command
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.cli.help import shown_default, usage_lines
from talos.talosctl.man_pages import walk_commands
from talos.talosctl.metrics.families import FAMILIES

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "reference"
NOTE = "<!-- written by `make references` -->"
MAIN = "v1alpha1"
TITLES = {
    MAIN: "The main document",
    "block": "Volumes",
    "cluster": "Discovery",
    "container": "Containers",
    "cri": "The container runtime",
    "extensions": "Extensions",
    "hardware": "Hardware",
    "kubernetes": "Kubernetes",
    "network": "The network",
    "runtime": "The running system",
    "security": "Security",
    "siderolink": "SideroLink",
    "storage": "RAID and LVM",
}
"""The pages of config/ by the folder of their documents."""
PLAIN_TYPES: Mapping[type, str] = {str: "text", int: "number", float: "number", bool: "true or false"}
NO_EFFECT = "none yet"
WIDTHS = (UINT32, UINT64, INT32)
"""Bounds that are those of a type in the wire's messages, and are no bounds of the value."""


def make_pages() -> Mapping[str, str]:
    """Every page by its path below docs/reference."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, module in (("", f"{MAIN}.main"), *MODULES.items()):
        kinds[module.partition(".")[0]].append(kind)
    pages = {f"config/{folder}.md": make_config_page(folder, kinds[folder]) for folder in TITLES}
    return pages | {
        "config/README.md": make_config_index(kinds),
        "commands.md": make_commands_page(),
        "resources.md": make_resources_page(),
        "metrics.md": make_metrics_page(),
    }


def make_config_index(kinds: Mapping[str, Sequence[str]]) -> str:
    """Every kind with its page, and the values that have a syntax."""
    texts = sorted(
        (cls for cls in vars(values).values() if isinstance(cls, type) and issubclass(cls, values.Text)),
        key=_name,
    )
    rows = (
        (f"[{kind or 'the main document'}]({folder}.md{f'#{kind.lower()}' if kind else ''})", _summary(kind))
        for folder, names in kinds.items()
        for kind in names
    )
    return _page(
        "Config documents",
        "A machine config is a main document, and documents that each have a `kind`. A kind with a `name`\n"
        "may occur once for each name. The effect is when a change is in force: `talosctl apply-config\n"
        "--dry-run` shows it for a change at hand. What comes or goes with its whole document takes effect\n"
        "as its kind does, and so does its `name`.\n\n"
        f"What has the effect “{NO_EFFECT}” is read and checked,\n"
        "and nothing on a node of this version acts on it.",
        _table(("kind", "is"), rows),
        "## Values with a syntax",
        _table(("type", "is"), ((_name(cls), cls.expected) for cls in texts if cls is not values.Text)),
    )


def make_config_page(folder: str, kinds: Sequence[str]) -> str:
    """The documents of one folder."""
    parts: list[str] = []
    for kind in kinds:
        document = document_type(kind)
        if kind:
            parts += [f"## {kind}", _summary(kind)]
            if kind in UNREAD_KINDS:
                parts.append("**No effect yet** on nodes of this version.")
        parts.append(_table(("field", "type", "default", "effect", "is"), make_fields(kind, document)))
        if kind:
            example = (DOCS / f"examples/{kind}.yaml").read_text(encoding="utf-8")
            parts.append(f"```yaml\n{example}```")
    return _page(TITLES[folder], *parts)


def make_fields(kind: str, section: type[Section]) -> Iterator[tuple[str, ...]]:
    """A row for each field of a document."""
    unread = UNREAD_SETTINGS.get(kind, {})
    for path, field, applies in walk_fields(section, document_type(kind).applies):
        place = path.replace("[]", "")
        is_unread = kind in UNREAD_KINDS or any(f"{place}.".startswith(f"{name}.") for name in unread)
        replaced = UNREAD_KINDS.issuperset(field.setting.replaced_by) and bool(field.setting.replaced_by)
        effect = NO_EFFECT if is_unread or replaced else applies.value
        yield f"`{path}`", _type(field), _default(field), effect, _meaning(field)


def walk_fields(
    section: type[Section], applies: Applies, path: str = ""
) -> Iterator[tuple[str, Field, Applies]]:
    """Every field with its path and its effect, which is that of the section around it unless it has one."""
    for key, field in fields_of(section).items():
        below, when = f"{path}{key}", field.setting.applies or applies
        yield below, field, when
        shape = field.shape
        while shape.item is not None:
            below += "[]" if shape.form is Form.LIST else ".KEY"
            shape = shape.item
        if shape.form is Form.SECTION:
            yield from walk_fields(shape.type, when, f"{below}.")


def make_commands_page() -> str:
    """Every command with its flags."""
    parts: list[str] = []
    for chain in walk_commands():
        parts += make_command(chain)
    return _page(
        "Commands of talosctl", "`talosctl COMMAND --help` and the manual pages have the same text.", *parts
    )


def make_command(chain: Sequence[Command]) -> Iterator[str]:
    """The parts of one command."""
    command = chain[-1]
    yield f"## {' '.join(link.name for link in chain)}"
    yield command.details or command.summary
    yield "  \n".join(f"`{line}`" for line in usage_lines(chain))
    if command.aliases:
        yield f"Aliases: {', '.join(f'`{name}`' for name in command.aliases)}."
    own = sorted((*command.flags, *command.inherited), key=lambda flag: flag.name)
    if rows := [_flag_row(flag) for flag in own if not flag.hidden and flag is not HELP]:
        yield _table(("flag", "takes", "default", "is"), rows)
    if command.example:
        yield f"```\n{command.example}\n```"
    names = {flag.name for flag in own}
    for depth in range(1, len(chain)):
        inherited = [f"`--{flag.name}`" for flag in chain[depth - 1].inherited if flag.name not in names]
        if inherited:
            above = " ".join(link.name for link in chain[:depth])
            yield f"From [{above}](#{above.replace(' ', '-')}): {', '.join(inherited)}."


def make_resources_page() -> str:
    """Every kind of resource by its namespace."""
    names = "`talosctl get NAME` takes each of these names, `-o yaml` shows the whole spec."
    parts = [f"{names} What is sensitive is for the role `os:admin`."]
    for namespace, description in NAMESPACES.items():
        kinds = [kind for kind in REGISTRY.values() if kind.namespace == namespace]
        rows = (
            (
                f"`{kind.type}`",
                ", ".join(f"`{name}`" for name in dict.fromkeys(kind.all_aliases[:3])),
                ", ".join(column.name for column in kind.columns),
                "sensitive" if kind.sensitive else "",
            )
            for kind in kinds
        )
        if kinds:
            parts += [f"## {namespace}", description, _table(("type", "names", "columns", ""), rows)]
    reasons = ((f"`{name}`", reason) for name, reason in UNWRITTEN.items())
    parts += [
        "## Without instances",
        "Upstream has these; a node never has one.",
        _table(("type", "why"), reasons),
    ]
    return _page("Resources", *parts)


def make_metrics_page() -> str:
    """Every family of metrics."""
    rows = ((f"`{name}`", kind, meaning) for name, (kind, meaning) in FAMILIES.items())
    return _page(
        "Metrics",
        "What `talosctl metrics` shows, see [Metrics](../metrics.md). Each has the label `node`.",
        _table(("metric", "kind", "is"), rows),
    )


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", NOTE, *parts)) + "\n"


def _table(titles: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> str:
    lines = [_line(titles), "|---" * len(titles) + "|"]
    return "\n".join([*lines, *(_line(tuple(cell.replace("|", "\\|") for cell in row)) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _summary(kind: str) -> str:
    text = (document_type(kind).__doc__ or "").strip()
    return re.sub(r"``(.*?)``", r"`\1`", text).replace("\n\n", "\n").replace("\n", " ")


def _name(cls: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()


def _type(field: Field) -> str:
    setting = field.setting
    text = _shape(field.shape)
    if setting.allowed:
        text += f": {', '.join(f'`{value}`' for value in setting.allowed if value)}"
    elif setting.bounds and setting.bounds not in WIDTHS:
        text += f", {setting.bounds[0]} to {setting.bounds[1]}"
    elif setting.schemes:
        text += f": {', '.join(f'`{scheme}://`' for scheme in setting.schemes)}"
    return text


def _shape(shape: Shape) -> str:
    match shape.form:
        case Form.LIST | Form.MAP:
            assert shape.item is not None
            inner = _shape(shape.item)
            return f"list of {inner}" if shape.form is Form.LIST else f"map to {inner}"
        case Form.SECTION:
            return "section"
        case Form.FREE:
            return "object, not checked"
        case Form.ARGS:
            return "map to text or list of text"
        case Form.SCALAR:
            return PLAIN_TYPES.get(shape.type) or _name(shape.type)


def _default(field: Field) -> str:
    if field.required:
        return "required"
    shown: Any = field.default
    if shown is None or shown == () or shown == {} or shown == "" or isinstance(shown, Section):
        return ""
    return f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"


def _meaning(field: Field) -> str:
    setting = field.setting
    text = re.sub(r"``(.*?)``", r"`\1`", setting.doc)
    notes = ["secret"] if setting.secret else []
    if setting.replaced_by:
        notes.append(f"newer: {', '.join(f'`{kind}`' for kind in setting.replaced_by)}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _flag_row(flag: Flag) -> tuple[str, ...]:
    name = f"`-{flag.short}`, `--{flag.name}`" if flag.short else f"`--{flag.name}`"
    takes = "" if flag.type is Type.BOOL else flag.metavar or ", ".join(flag.choices) or flag.type.value
    return name, takes, shown_default(flag).replace(str(Path.home()), "~"), flag.help


def main() -> int:
    """Write, or compare."""
    pages = make_pages()
    there = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*.md")}
    if "--check" not in sys.argv:
        for name in there.keys() - pages.keys():
            there[name].unlink()
        for name, text in pages.items():
            (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    differing = sorted(
        name
        for name in there.keys() | pages.keys()
        if name not in there or there[name].read_text(encoding="utf-8") != pages.get(name)
    )
    for name in differing:
        sys.stdout.write(f"docs/reference/{name} is not what the code holds: make references\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
