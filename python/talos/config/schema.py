"""How a config document is declared: one frozen dataclass, one ``setting`` per field.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class HostnameConfig(Document):
        '''How the node gets its name.'''

        hostname: str | None = setting("fixed name of the node", example="node-1")

The annotation is the type, ``setting`` declares the rest. Loader, encoder, redaction, documentation,
patches and the dry run's texts all read this declaration; there is no second one.
"""

import dataclasses
import enum
import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAliasType, get_args, get_origin

from talos.config.values import Args, Unstructured


class Applies(enum.Enum):
    """When a changed value takes effect."""

    LIVE = "at once"
    RESTART = "at once: the node restarts the service"
    REBOOT = "after a reboot"
    INSTALL = "at the next install or upgrade"
    CREATION = "only when the volume is made"
    GROWTH = "after a reboot if the volume grows, else only when it is made"


class Merge(enum.Enum):
    """How a strategic merge treats a list or a free-form object."""

    APPEND = "append"
    REPLACE = "replace"
    BY_KEY = "by key"
    REPLACE_BY_KEY = "replace by key"


UINT8 = (0, 2**8 - 1)
UINT16 = (0, 2**16 - 1)
UINT32 = (0, 2**32 - 1)
UINT64 = (0, 2**64 - 1)
INT32 = (-(2**31), 2**31 - 1)
PORT = UINT16
FILE_MODE = (0, 0o7777)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field's declaration beside its type."""

    doc: str = ""
    key: str = ""
    example: Any = None
    allowed: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None
    schemes: tuple[str, ...] = ()
    secret: bool = False
    private: bool = False
    applies: Applies | None = None
    merge: Merge | None = None
    merge_key: str = ""
    replaced_by: tuple[str, ...] = ()


REQUIRED: Any = dataclasses.MISSING


def setting(
    doc: str,
    *,
    key: str = "",
    default: Any = None,
    example: Any = None,
    allowed: tuple[str, ...] = (),
    bounds: tuple[int, int] | None = None,
    schemes: tuple[str, ...] = (),
    secret: bool = False,
    private: bool = False,
    applies: Applies | None = None,
    merge: Merge | None = None,
    merge_key: str = "",
    replaced_by: tuple[str, ...] = (),
) -> Any:
    """Declare a field. Without ``default`` it is None when absent; REQUIRED must be present.

    ``key`` is the YAML key where it is not the field's name in camel case. ``allowed``,
    ``bounds`` and ``schemes`` hold for the value, or for each element of a list. A ``secret`` is never
    shown; what is ``private`` may have one in it, and is for those daemons only that use it.
    ``merge_key`` names the keys, joined by ``|``, by whose values elements of a list are matched in a patch;
    what matches is merged, or replaced with REPLACE_BY_KEY.
    """
    meta = Setting(
        doc=doc,
        key=key,
        example=example,
        allowed=allowed,
        bounds=bounds,
        schemes=schemes,
        secret=secret,
        private=private,
        applies=applies,
        merge=merge or (Merge.BY_KEY if merge_key else None),
        merge_key=merge_key,
        replaced_by=replaced_by,
    )
    return dataclasses.field(default=default, metadata={"setting": meta}, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Section):
    """A config document of its own kind.

    ``kind`` is empty for the main document. A named kind may occur once for each name.
    """

    kind: ClassVar[str] = ""
    named: ClassVar[bool] = False
    applies: ClassVar[Applies] = Applies.LIVE

    @property
    def id(self) -> str:
        """Kind and name, unique within a config."""
        name = getattr(self, "name", "") if self.named else ""
        return f"{self.kind}/{name}" if name else self.kind or "v1alpha1"


class Form(enum.Enum):
    """The shapes a value can have."""

    SCALAR = "scalar"
    LIST = "list"
    MAP = "map"
    SECTION = "section"
    FREE = "free-form"
    ARGS = "args"


@dataclass(frozen=True, slots=True)
class Shape:
    """A field's type, analysed: ``type`` of a scalar or section, ``item`` of a list or map."""

    form: Form
    type: type[Any]
    item: "Shape | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a section, ready to be read and written."""

    name: str
    key: str
    shape: Shape
    required: bool
    default: Any
    setting: Setting


@functools.cache
def fields_of(section: type[Section]) -> Mapping[str, Field]:
    """The fields of a section by YAML key, in order."""
    fields: dict[str, Field] = {}
    for declared in dataclasses.fields(section):
        meta: Setting = declared.metadata["setting"]
        key = meta.key or camel_case(declared.name)
        fields[key] = Field(
            name=declared.name,
            key=key,
            shape=shape_of(declared.type),
            required=declared.default is REQUIRED,
            default=None if declared.default is REQUIRED else declared.default,
            setting=meta,
        )
    return types.MappingProxyType(fields)


def shape_of(annotation: Any) -> Shape:
    """Analyse a field's annotation."""
    if isinstance(annotation, types.UnionType):
        (annotation,) = (member for member in get_args(annotation) if member is not types.NoneType)
    if isinstance(annotation, TypeAliasType):
        if annotation is Unstructured:
            return Shape(Form.FREE, dict)
        assert annotation is Args
        return Shape(Form.ARGS, dict)
    origin = get_origin(annotation)
    if origin is tuple:
        return Shape(Form.LIST, tuple, shape_of(get_args(annotation)[0]))
    if origin is Mapping:
        return Shape(Form.MAP, dict, shape_of(get_args(annotation)[1]))
    if issubclass(annotation, Section):
        return Shape(Form.SECTION, annotation)
    return Shape(Form.SCALAR, annotation)


def section_at(section: type[Section], path: Sequence[str]) -> type[Section] | None:
    """The section that a path of keys leads to, ``[]`` for an item; None for anything else."""
    shape: Shape | None = Shape(Form.SECTION, section)
    for part in path:
        if shape is None:
            return None
        if shape.form is Form.SECTION:
            field = fields_of(shape.type).get(part)
            shape = field.shape if field else None
        else:
            shape = shape.item
    return shape.type if shape is not None and shape.form is Form.SECTION else None


def camel_case(name: str) -> str:
    """``pod_subnets`` as YAML writes it, ``podSubnets``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)
