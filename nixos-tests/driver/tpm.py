"""The TPM of a machine: swtpm, which QEMU connects to."""

from pathlib import Path

from driver.failure import ConditionNotMetError
from driver.process import start_process
from driver.programs import Programs
from driver.retry import TimeoutScale, retry

LISTENS_TIMEOUT = 30.0  # seconds


def start_tpm(programs: Programs, folder: Path) -> Path:
    """Start one, with its keys below a machine's folder; its socket. It ends with QEMU's connection."""
    state, control = folder / "tpm", folder / "tpm.socket"
    state.mkdir(exist_ok=True)
    control.unlink(missing_ok=True)
    argv = ["socket", "--tpm2", "--terminate", "--tpmstate", f"dir={state}"]
    argv += ["--ctrl", f"type=unixio,path={control}"]
    start_process([*programs.argv("swtpm"), *argv], log=folder / "tpm.log")

    def check() -> None:
        if not control.exists():
            raise ConditionNotMetError((folder / "tpm.log").read_text(errors="replace"))

    retry("the TPM listens", check, timeout_scale=TimeoutScale(), seconds=LISTENS_TIMEOUT, pause=0.02)
    return control
