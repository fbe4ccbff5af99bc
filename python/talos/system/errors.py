"""The one error that is the user's to mend."""


class UserError(Exception):
    """A mistake in something that came from outside: a config, a flag, an API call, a disk.

    It is reported as one line, ``where: message (hint)``, without a traceback. The API
    answers it with ``InvalidArgument``, a command exits with 1. Every other exception is
    a defect of ours and is logged with its traceback.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{remedy}"


def lower_first(text: str) -> str:
    """A reason as it stands within a line: the C library's begin with a capital letter."""
    return text[:1].lower() + text[1:]
