"""``CRIBaseRuntimeSpecConfig``: changes to the OCI runtime spec that every container starts from."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Applies, Document, Merge, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class CRIBaseRuntimeSpecConfig(Document):
    """Changes to the OCI runtime spec that every container starts from."""

    kind: ClassVar[str] = "CRIBaseRuntimeSpecConfig"
    applies: ClassVar[Applies] = Applies.RESTART

    overrides: Unstructured | None = setting("the changes", merge=Merge.REPLACE)
