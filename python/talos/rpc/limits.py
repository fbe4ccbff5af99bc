"""Options of gRPC between the node's daemons and towards other nodes."""

MAX_MESSAGE = 32 * 1024 * 1024
"""Largest message received, in bytes; the API's own limit. gRPC's default is 4 MiB."""

MESSAGE_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
)
