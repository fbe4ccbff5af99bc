"""How a test fails."""


class Failed(AssertionError):
    """Something was not as the test wants it; the text is all that one needs to read."""


class ConditionNotMet(AssertionError):
    """What is waited for has not come yet; the text has what is there instead."""


class Stalled(Failed):
    """A timer of the emulated processor is lost: the machine crawls from now on, whatever it runs."""
