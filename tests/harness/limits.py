"""How long tests wait on the real clock."""

REAL_TIMEOUT = 60.0
"""Seconds after which a test gives up what it waits for; far more than that takes on a busy machine."""
