"""The exceptions of a test on virtual machines."""


class VmTestError(AssertionError):
    """The test fails; the text has all that a reader needs."""


class ConditionNotMetError(AssertionError):
    """A condition that is waited for does not hold yet; the text has the present state."""


class StalledMachineError(VmTestError):
    """The emulated processor has lost a timer: the machine is slow from now on, and the test is repeated."""
