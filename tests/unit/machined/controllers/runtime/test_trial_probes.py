"""Probes of trial checks, as networkd gets them."""

from talos.config.effective.trial_checks import TrialCheck
from talos.machined.controllers.runtime.trial_probes import make_probe


def test_a_probe_has_the_target_and_the_time_limit_of_its_check() -> None:
    http = make_probe(TrialCheck(name="a", url="https://a/b?c", timeout=0.25))
    assert (http.http.url.full_path, http.http.timeout.ToMilliseconds()) == ("https://a/b?c", 250)
    tcp = make_probe(TrialCheck(name="a", endpoint="[::1]:1"))
    assert (tcp.tcp.endpoint, tcp.tcp.timeout.seconds) == ("[::1]:1", 5)
    for spec in (http, tcp):
        assert (spec.interval.seconds, spec.failure_threshold) == (1, 0)
        assert spec.HasField("tcp") != spec.HasField("http")
