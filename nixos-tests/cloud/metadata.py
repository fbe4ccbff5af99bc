"""A metadata server for one connection: QEMU runs it for each, whose bytes are its input and output."""

import sys
from pathlib import Path


def main(folder: Path) -> None:
    """Answer one request for a file of the folder."""
    request = sys.stdin.buffer.readline().decode("ascii", "replace").split()
    while sys.stdin.buffer.readline().strip():
        pass
    path = folder / (request[1].lstrip("/") if len(request) > 1 else "")
    found = path.is_file()
    data = path.read_bytes() if found else b""
    status = "200 OK" if found else "404 Not Found"
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    sys.stdout.buffer.write(head.encode() + data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
