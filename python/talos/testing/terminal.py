"""A terminal in memory."""


class MemoryTerminal:
    """Keeps what was written."""

    def __init__(self, columns: int = 80, rows: int = 25) -> None:
        self.columns, self.rows = columns, rows
        self.written: list[bytes] = []
        self.is_stuck = False

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self.columns, self.rows

    def write(self, data: bytes) -> bool:
        """Keep it, unless it is stuck."""
        if not self.is_stuck:
            self.written.append(data)
        return not self.is_stuck
