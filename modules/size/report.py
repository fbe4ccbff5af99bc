"""Report what the image is made of, largest first.

What a file takes in the image can't be read from it, because blocks are shared. So every part is
compressed by itself, quickly, and the results are scaled to the image's true size.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

MEGABYTE = 1_000_000
QUICK = "-6"
PARTS = (
    ("CPython: interpreter", "usr/bin/python3.13"),
    ("CPython: standard library", "usr/lib/python3.13/"),
    ("containerd", "usr/bin/containerd"),
    ("containerd: shim", "usr/bin/containerd-shim-runc-v2"),
    ("runc", "usr/sbin/runc"),
    ("CNI plugins", "usr/lib/cni/"),
    ("OpenSSL", "usr/lib/x86_64-linux-gnu/libcrypto"),
    ("OpenSSL", "usr/lib/x86_64-linux-gnu/libssl"),
    ("C and C++ libraries", "usr/lib/x86_64-linux-gnu/libc."),
    ("C and C++ libraries", "usr/lib/x86_64-linux-gnu/libm."),
    ("C and C++ libraries", "usr/lib/x86_64-linux-gnu/libstdc++"),
    ("iptables and nftables", "usr/lib/x86_64-linux-gnu/xtables/"),
    ("iptables and nftables", "usr/lib/x86_64-linux-gnu/libnft"),
    ("iptables and nftables", "usr/sbin/nft"),
    ("iptables and nftables", "usr/sbin/xtables-nft-multi"),
    ("other libraries", "usr/lib/x86_64-linux-gnu/"),
    ("XFS programs", "usr/sbin/xfs"),
    ("XFS programs", "usr/sbin/mkfs"),
    ("ext4 programs", "usr/sbin/e2fsck"),
    ("ext4 programs", "usr/sbin/mke2fs"),
    ("our Python: {}", "talos/talos/"),
    ("wheel: {}", "usr/lib/python3/dist-packages/"),
)


def part_of(path: str) -> str:
    """Name the part a file belongs to; the longest matching rule counts."""
    rules = [
        (name, prefix)
        for name, prefix in PARTS
        if path == prefix or (path.startswith(prefix) and not prefix.endswith("containerd"))
    ]
    if not rules:
        return "everything else"
    name, prefix = max(rules, key=lambda rule: len(rule[1]))
    return name.format(path.removeprefix(prefix).split("/")[0].split(".")[0])


def files(*roots: Path) -> Iterator[tuple[Path, str]]:
    """Walk over the files of several trees, with their paths in the image."""
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path, str(path.relative_to(root))


def compressed_size(paths: list[Path]) -> int:
    """Compress files one after the other and count."""
    data = b"".join(path.read_bytes() for path in paths)
    return len(
        subprocess.run(["zstd", QUICK, "-q", "-c"], input=data, capture_output=True, check=True).stdout
    )


def main() -> None:
    """Write the table to $out."""
    parts: dict[str, list[Path]] = {}
    for path, name in files(Path(os.environ["base"]), Path(os.environ["layer"])):
        parts.setdefault(part_of(name), []).append(path)
    raw = {name: sum(path.stat().st_size for path in paths) for name, paths in parts.items()}
    packed = {name: compressed_size(paths) for name, paths in parts.items()}
    image = Path(os.environ["squashfs"]).stat().st_size
    scale = image / sum(packed.values())
    rows = [(name, packed[name] * scale, raw[name], len(parts[name])) for name in parts]
    rows.sort(key=lambda row: -row[1])
    rows.append(("total", image, sum(raw.values()), sum(map(len, parts.values()))))
    text = f"{'part':34} {'in the image':>14} {'unpacked':>12} {'files':>7}\n"
    for name, inside, unpacked, count in rows:
        text += f"{name:34} {inside / MEGABYTE:11.2f} MB {unpacked / MEGABYTE:9.2f} MB {count:7}\n"
    Path(os.environ["out"]).write_text(text)


main()
