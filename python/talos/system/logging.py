"""Structured log lines on stderr, one JSON object each; machined collects them per service."""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal

type Level = Literal["debug", "info", "warning", "error"]

KEYS = 1000
"""Keys of :meth:`Log.once` that are remembered."""


def make_printable(text: str) -> str:
    """A text that any terminal may get."""
    return "".join(character if character.isprintable() else "?" for character in text)


def write_stderr(line: str) -> None:
    """Write one line in one piece, so that lines of several writers don't mix."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Log:
    """Writes lines such as ``{"time":…,"level":"info","msg":…,"service":…}``.

    An exception goes in as ``error`` and is written with its traceback.
    """

    def __init__(
        self, fields: Mapping[str, object] | None = None, *, write: Callable[[str], None] = write_stderr
    ) -> None:
        self._fields = dict(fields or {})
        self._write = write
        self._last: dict[str, str] = {}

    def bind(self, **fields: object) -> "Log":
        """A log whose lines carry these fields, too."""
        return Log({**self._fields, **fields}, write=self._write)

    def debug(self, message: str, **fields: object) -> None:
        """For debugging the daemon."""
        self._line("debug", message, fields)

    def info(self, message: str, **fields: object) -> None:
        """What matters to a reader of the log."""
        self._line("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Something is not as it should be, the daemon copes."""
        self._line("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Something failed."""
        self._line("error", message, fields)

    def once(self, message: str, *, key: str = "", level: Level = "warning", **fields: object) -> bool:
        """Write a line, unless the last one of this key was the same; whether it was written.

        The key is the message itself unless given. The newest ``KEYS`` keys are remembered.
        """
        key = key or message
        if self._last.pop(key, None) == message:
            self._last[key] = message
            return False
        self._last[key] = message
        if len(self._last) > KEYS:
            del self._last[next(iter(self._last))]
        self._line(level, message, fields)
        return True

    def forget(self, key: str) -> None:
        """Have the next line of a key written, even if it is the same."""
        self._last.pop(key, None)

    def exception(self, message: str, **fields: object) -> None:
        """Something failed with the exception that is being handled."""
        self._line("error", message, {"error": sys.exception(), **fields})

    def _line(self, level: Level, message: str, fields: Mapping[str, object]) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        record: dict[str, object] = {"time": now.replace("+00:00", "Z"), "level": level, "msg": message}
        for key, value in {**self._fields, **fields}.items():
            if isinstance(value, BaseException):
                record[key] = f"{type(value).__name__}: {value}"
                record["traceback"] = "".join(traceback.format_exception(value))
            else:
                record[key] = value
        self._write(json.dumps(record, default=str, separators=(",", ":"), ensure_ascii=False))


class _Forward(logging.Handler):
    """Passes what libraries log on to ours."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        error = record.exc_info[1] if record.exc_info else None
        fields: dict[str, object] = {"logger": record.name, **({"error": error} if error else {})}
        log = self._log
        levels = ((logging.ERROR, log.error), (logging.WARNING, log.warning), (logging.INFO, log.info))
        write = next((method for level, method in levels if record.levelno >= level), log.debug)
        write(record.getMessage(), **fields)


def collect_library_logs(log: Log, *, verbose: str = "") -> None:
    """Send warnings and errors of the standard library's logging to a log, of one logger everything."""
    if verbose:
        logging.getLogger(verbose).setLevel(logging.DEBUG)
    logging.root.handlers = [_Forward(log)]
    logging.root.setLevel(logging.WARNING)
