"""The log of a container, read again and again: the API server may be down in between."""

from urllib.parse import quote

from talos.kubernetes.client import KubernetesClient

MAX_BYTES = 4 << 20
"""Bytes of one request."""


class LogReader:
    """Reads what is new. Its times are whole seconds, so the last second's lines are fetched again."""

    def __init__(self, path: str) -> None:
        """``path`` is that of the log with its query."""
        self._path = f"{path}&timestamps=true&limitBytes={MAX_BYTES}"
        self._second = ""
        self._seen = 0

    async def read(self, client: KubernetesClient) -> list[str]:
        """The lines since the last call, without their times; KubernetesError."""
        since = f"&sinceTime={quote(self._second)}" if self._second else ""
        return self.take(await client.read_text(self._path + since))

    def take(self, text: str) -> list[str]:
        """The new lines of a reply, which begins with those of the last second again."""
        # A line that is not whole is in the next reply, too.
        lines = text[: text.rfind("\n") + 1].splitlines()
        new = lines[self._seen :]
        if lines:
            second = lines[-1].partition(" ")[0].removesuffix("Z").partition(".")[0]
            self._second = f"{second}Z"
            self._seen = sum(line.startswith(second) for line in lines)
        return [line.partition(" ")[2] for line in new]
