"""The entry of PID 1. It never returns: a PID 1 that ends is a kernel panic."""

import gc
import time
import traceback


def main() -> None:
    """Boot; any failure is logged and ends in a reboot."""
    try:
        _run()
        reason = "machined ended"
    except BaseException:  # noqa: BLE001 - any end of this process is a kernel panic
        reason = traceback.format_exc()
    from talos.machined.boot.failure import reboot_after_failure

    reboot_after_failure(reason)
    while True:
        time.sleep(3600)


def _run() -> None:
    # What is imported stays: looking through it again and again would take a tenth of the time.
    gc.disable()
    # Imported here, so that a failing import is logged, too.
    from talos.startup.generated import use_generated
    from talos.startup.lazy import delay_seldom_used

    delay_seldom_used()
    use_generated()
    from talos.machined.boot.early import boot_machine

    boot_machine()


if __name__ == "__main__":
    main()
