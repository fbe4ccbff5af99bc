"""``TrialCheckConfig``: a condition that decides, beside the self-check, whether a trial is kept."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Duration, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCheckHTTP(Section):
    """A request that has to be answered with a status from 200 to 299."""

    url: Url | None = setting(
        "URL; a redirection is a failure",
        schemes=("http", "https"),
        example="http://127.0.0.1:8080/ready",
    )
    timeout: Duration | None = setting("time limit of a request, at most 10s (default: 5s)", example="5s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCheckTCP(Section):
    """A connection that has to be accepted."""

    endpoint: str | None = setting("host and port to connect to", example="10.0.0.5:5432")
    timeout: Duration | None = setting("time limit of a connection, at most 10s (default: 5s)", example="5s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCheckConfig(Document):
    """A condition that decides, beside the self-check, whether a release on trial is kept."""

    kind: ClassVar[str] = "TrialCheckConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the check, which reasons have", default="", example="shop")
    http: TrialCheckHTTP | None = setting("an HTTP request that has to succeed; or tcp, or cel")
    tcp: TrialCheckTCP | None = setting("a TCP connection that has to succeed; or http, or cel")
    cel: str | None = setting(
        "expression in CEL that has to be true; or http, or tcp", example='services["kubelet"].healthy'
    )
