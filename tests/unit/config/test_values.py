import pytest

from talos.config.values import AddressPort, ByteSize, Duration, PortRange, RoundSize, Size, Text, Url


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5400), ("500ms", 0.5), ("0", 0), ("-2s", -2), (".5s", 0.5), ("168h0m0s", 604800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration.parse(text).seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("10GiB", 10 * 2**30), ("1kB", 1000), ("7", 7), ("1.5 MB", 1500000), ("2Gi", 2**31)]
)
def test_sizes(text: str, size: int) -> None:
    assert ByteSize.parse(text).bytes == size


@pytest.mark.parametrize(
    ("text", "size"), [("50%", 500), ("100B", 100), ("-10%", 900), ("-100B", 900), ("-2kB", 0)]
)
def test_shares(text: str, size: int) -> None:
    assert Size.parse(text).of(1000) == size


def test_urls() -> None:
    url = Url.parse("https://[fd00::1]:6443/x")
    assert (url.scheme, url.host, url.port) == ("https", "fd00::1", 6443)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration, "1"), (Duration, "1d"), (Duration, ""), (ByteSize, "ten"), (ByteSize, "50%"), (Size, "x%"),
        (Url, "nope"), (Url, "https://"), (Url, "https://a:99999"), (Url, "https://a:b"),
        (AddressPort, "10.0.0.1"), (AddressPort, "fd00::1:80"),
        (AddressPort, "[10.0.0.1]:80"), (AddressPort, "10.0.0.1:70000"),
        (PortRange, "2-1"), (PortRange, "x"), (PortRange, "1-70000"),
    ],
)  # fmt: skip
def test_what_hasnt_the_form_is_refused(kind: type[Text], text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is checked with the loader
        kind.parse(text)


WRITTEN = {"2m": "2m0s", "90s": "1m30s", "0.5s": "500ms", "168h": "168h0m0s", "0": "0s"}


@pytest.mark.parametrize("text", WRITTEN)
def test_durations_are_kept_in_one_form(text: str) -> None:
    assert Duration.parse(text) == WRITTEN[text]
    assert Duration.parse(WRITTEN[text]) == WRITTEN[text]


@pytest.mark.parametrize(
    ("text", "written"), [("10GB", "10 GB"), ("100 GiB", "100 GiB"), ("512000", "512 kB")]
)
def test_sizes_of_partitions_are_written_in_round_numbers(text: str, written: str) -> None:
    assert RoundSize.parse(text) == written
    assert RoundSize.parse(written).bytes == ByteSize.parse(text).bytes
