"""How fast a block device is, past the page cache: ``python disk_speed.py SECONDS DEVICE``.

It runs on a node, by the node's own Python, whose library is not complete. Its answer is a line for each
pattern: its name, a tab, and bytes a second. What the device holds is lost.
"""

import mmap
import os
import sys
import time

SPAN = 256 << 20
"""Bytes of the device that are used."""
LARGE, SMALL = 1 << 20, 4 << 10
"""Bytes of a transfer: in sequence, and at random places."""


def main() -> None:
    """Measure each pattern; the first one writes all of the span, so that later reads find data."""
    seconds, device = float(sys.argv[1]), sys.argv[2]
    descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
    speeds: dict[str, float] = {}
    for write in (True, False):
        kind = "write" if write else "read"
        speeds[f"sequential {kind}"] = measure(descriptor, seconds, LARGE, write=write, at_random=False)
        speeds[f"random {kind}"] = measure(descriptor, seconds, SMALL, write=write, at_random=True)
    os.close(descriptor)
    sys.stdout.writelines(f"{name}\t{speed}\n" for name, speed in speeds.items())


def measure(descriptor: int, seconds: float, size: int, *, write: bool, at_random: bool) -> float:
    """Bytes a second of transfers one by one; in sequence the span is gone through at least once."""
    buffer = mmap.mmap(-1, size)  # where a page begins, as O_DIRECT demands
    buffer.write(os.urandom(size))
    transfer = os.pwritev if write else os.preadv
    count, places = 0, SPAN // size
    least = 0 if at_random else places
    began = time.monotonic()
    while count < least or time.monotonic() - began < seconds:
        place = int.from_bytes(os.urandom(4)) % places if at_random else count % places
        moved = transfer(descriptor, [buffer], place * size)
        if moved != size:
            raise OSError(f"{moved} of {size} bytes")
        count += 1
    if write:
        os.fsync(descriptor)
    return count * size / (time.monotonic() - began)


if __name__ == "__main__":
    main()
