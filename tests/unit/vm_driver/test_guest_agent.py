"""The guest agent's protocol: what is left of an earlier attempt is skipped."""

import json
import socket
import threading
from pathlib import Path

import pytest
from driver.failure import ConditionNotMetError
from driver.guest_agent import execute


def serve(path: Path, *, answers: bool = True) -> threading.Thread:
    """An agent that first gives what an earlier attempt is owed, and an error for the delimiter."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def run() -> None:
        with listener, listener.accept()[0] as line, line.makefile("rwb") as stream:
            if not answers:
                return
            stream.write(b'{"return": "of an earlier attempt"}\n{"error": {"desc": "stray"}}\n')
            sync = json.loads(stream.readline().lstrip(b"\xff"))
            stream.write(b"\xff" + json.dumps({"return": sync["arguments"]["id"]}).encode() + b"\n")
            stream.flush()
            command = json.loads(stream.readline())["execute"]
            stream.write(
                b'{"return": {}}\n' if command == "guest-ping" else b'{"error": {"desc": "blocked"}}\n'
            )

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_an_answer_is_that_of_the_question(tmp_path: Path) -> None:
    thread = serve(tmp_path / "agent")
    assert execute(tmp_path / "agent", "guest-ping") == {}
    thread.join()


@pytest.mark.parametrize("answers", [True, False])
def test_no_answer_may_come_yet(tmp_path: Path, answers: bool) -> None:
    thread = serve(tmp_path / "agent", answers=answers)
    with pytest.raises(ConditionNotMetError, match="does not answer to guest-exec"):
        execute(tmp_path / "agent", "guest-exec")
    thread.join()
    with pytest.raises(ConditionNotMetError, match="No such file"):
        execute(tmp_path / "nothing", "guest-ping")
