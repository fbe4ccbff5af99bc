"""Why a system that was booted once is gone, by what its boot has left."""

from typing import Protocol

from talos.upgrade.state import Phase


class BootEnd(Protocol):
    """How the boot before this one ended, as far as it left that."""

    @property
    def cause(self) -> str:
        """One printable line, empty without one."""
        ...

    @property
    def is_orderly(self) -> bool:
        """Whether its log ends with a restart."""
        ...

    @property
    def was_trial(self) -> bool:
        """Whether its log is that of a system booted once."""
        ...


def explain_end(last: BootEnd | None, phase: Phase) -> str:
    """The reason in words; ``last`` is None where a boot can leave nothing."""
    if last is None:
        return "it left no reason"
    if last.cause:
        return last.cause
    if last.is_orderly:
        return "it was restarted" if last.was_trial else "its kernel left no trace"
    if phase is Phase.TRIAL:
        return "an unknown reset or power cut during the trial"
    what = "while its kernel ran" if last.was_trial else "which left no trace"
    return f"an unknown reset or power cut, {what}"
