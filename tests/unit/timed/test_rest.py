"""timed at rest."""

from tests.harness.rest import CountingState, check_rest

from talos.timed.main import make_controllers


async def test_nothing_is_written_without_a_change() -> None:
    await check_rest(CountingState(), make_controllers())
