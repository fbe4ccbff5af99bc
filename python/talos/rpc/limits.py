"""Limits of gRPC between the node's daemons and towards other nodes."""

MAX_MESSAGE = 32 * 1024 * 1024
"""Largest message received, in bytes; the API's own limit. gRPC's default is 4 MiB."""

SMALL_MESSAGE = 64 * 1024
"""Bytes of a message that is neither counted while it is held nor sent in more than one piece."""

REPLY_MEMORY = 32 * 1024 * 1024
"""Bytes of large replies that all calls of apid, or of routerd, hold until they are sent; one client alone
may hold half of it. Their control groups have 128 MiB. To merge those of several nodes takes one call's
part a second time."""
