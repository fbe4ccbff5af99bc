"""Structured log lines on stderr, one JSON object each; machined collects them per service."""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime


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

    def bind(self, **fields: object) -> "Log":
        """A log whose lines carry these fields, too."""
        return Log({**self._fields, **fields}, write=self._write)

    def debug(self, message: str, **fields: object) -> None:
        """For whoever looks into the working of the daemon."""
        self._line("debug", message, fields)

    def info(self, message: str, **fields: object) -> None:
        """What a reader of the log wants to know."""
        self._line("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Something is not as it should be, the daemon copes."""
        self._line("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Something failed."""
        self._line("error", message, fields)

    def exception(self, message: str, **fields: object) -> None:
        """Something failed with the exception that is being handled."""
        self._line("error", message, {"error": sys.exception(), **fields})

    def _line(self, level: str, message: str, fields: Mapping[str, object]) -> None:
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
