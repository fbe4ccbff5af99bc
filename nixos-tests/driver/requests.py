"""Clients of a service on machines: one calls all the time, at the next machine when one gives no answer."""

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

OPENER = build_opener(ProxyHandler({}))


def fetch(port: int, timeout: float) -> str:
    """The answer of a web server at a port on loopback; AssertionError without one in so many seconds."""
    try:
        with OPENER.open(f"http://127.0.0.1:{port}/", timeout=timeout) as response:
            return response.read().decode().strip()
    except (OSError, HTTPException) as error:
        raise AssertionError(f"no answer at port {port}: {error!r}") from None


@dataclass(slots=True)
class Answers:
    """What a client got. ``clock`` is what pauses are counted by, in seconds."""

    clock: Callable[[], float] = time.monotonic
    count: int = 0
    refusals: int = 0
    """Requests without an answer; each was made again at the next machine."""
    by: dict[str, int] = field(default_factory=dict[str, int])
    """How many answers each text was given in."""
    longest_gap: float = 0.0
    """The longest time without an answer, in seconds."""
    last: float = 0.0

    def note(self, text: str) -> None:
        """An answer."""
        now = self.clock()
        self.longest_gap = max(self.longest_gap, now - (self.last or now))
        self.last, self.count, self.by[text] = now, self.count + 1, self.by.get(text, 0) + 1

    def note_end(self) -> None:
        """The time since the latest answer counts, too."""
        if self.last:
            self.longest_gap = max(self.longest_gap, self.clock() - self.last)

    def describe(self) -> str:
        """One line of figures."""
        return (
            f"{self.count} answers of {len(self.by)} pods, {self.refusals} requests without one, "
            f"at most {self.longest_gap:.1f} s without an answer"
        )


@contextmanager
def requesting(
    servers: Mapping[str, Callable[[], str]], interval: float, clock: Callable[[], float] = time.monotonic
) -> Generator[Answers]:
    """A client for as long as the context is open; a server without an answer raises an AssertionError.

    ``interval`` are the seconds between two requests. It stays with a server until that gives no answer.
    """
    answers, is_over = Answers(clock), threading.Event()
    thread = threading.Thread(target=_request_all, args=([*servers.values()], answers, is_over, interval))
    thread.start()
    try:
        yield answers
    finally:
        is_over.set()
        thread.join()
        answers.note_end()


def _request_all(
    servers: Sequence[Callable[[], str]], answers: Answers, is_over: threading.Event, interval: float
) -> None:
    place = 0
    while not is_over.wait(interval):
        try:
            answers.note(servers[place]())
        except AssertionError:
            answers.refusals += 1
            place = (place + 1) % len(servers)
