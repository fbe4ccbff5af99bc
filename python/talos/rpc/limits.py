"""Options of gRPC between the node's daemons and towards other nodes."""

MAX_MESSAGE = 32 * 1024 * 1024
"""Largest message received, in bytes; the API's own limit. gRPC's default is 4 MiB."""

MESSAGE_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
)

RAW_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *MESSAGE_OPTIONS,
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # A call is passed on once: only the caller repeats it.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
)
"""Of a channel that calls are passed on over."""
