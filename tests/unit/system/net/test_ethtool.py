"""The loopback interface's driver."""

from talos.system.net.ethtool import Driver, DriverState


def test_loopback() -> None:
    state = Driver("lo").read()
    features = {feature.name: feature for feature in state.features}
    assert features["loopback"].is_active
    assert features["loopback"].is_fixed
    assert state.rings is None


def test_an_interface_that_is_not_there() -> None:
    assert Driver("nope0").read() == DriverState()
