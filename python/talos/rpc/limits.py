"""Limits of gRPC between the node's daemons and towards other nodes."""

MAX_MESSAGE = 32 * 1024 * 1024
"""Largest message received, in bytes; the API's own limit. gRPC's default is 4 MiB."""

SMALL_MESSAGE = 64 * 1024
"""Bytes of a message that is neither counted while it is held nor sent in more than one piece."""

REPLY_MEMORY = 48 * 1024 * 1024
"""Bytes of large replies that all calls of apid, or of routerd, hold until they are sent; one client alone
may hold half of it. Their control groups have 128 MiB. To merge those of several nodes takes one call's
part a second time."""

WIDE_WINDOW = 192 * 1024
"""Bytes that a stream of replies may have on the way beside its window, once it has used half of that."""

WIDE_WINDOWS = 64 * WIDE_WINDOW
"""Bytes of these that all calls of apid, or of routerd, may have; further streams are only slower."""

MAX_RECEIVED_METADATA = 48 * 1024
"""Bytes of the metadata of a call that is accepted: names, values and 32 bytes for each
pair, as HPACK counts. Some of it is for a proxy only, such as a list of many nodes."""

MAX_FORWARDED_METADATA = 7 * 1024
"""Bytes of the metadata that is passed on: gRPC servers refuse at random what exceeds 8 KiB."""
