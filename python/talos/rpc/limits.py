"""Options of every gRPC server and channel between the node's daemons."""

MAX_MESSAGE = 32 * 1024 * 1024
"""Largest message received, in bytes; the API's own limit. gRPC's default is 4 MiB."""

STREAM_WINDOW = 16
"""Messages that a stream holds between the two event loops before its writer waits."""

STREAM_BYTES = 64 * 1024
"""Bytes of replies that a stream holds between the two event loops before its writer waits."""

MESSAGE_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
)

LOCAL_WINDOW: tuple[tuple[str, int], ...] = (
    # What one stream holds for a slow reader. The probe would raise it to megabytes.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 * 1024),
)
