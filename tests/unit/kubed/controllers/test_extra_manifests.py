"""The user's manifests: fetched with their headers, each mistake named, the others written."""

import pytest
import trio
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.machined.platform.config_sources.test_web import Site

from talos.api.definitions.k8s_pb2 import ExtraManifestsConfigSpec
from talos.api.definitions.runtime_pb2 import EnvironmentSpec
from talos.kubed.controllers.extra_manifests import ExtraManifestController, make_name, parse_objects
from talos.resource import ids, kinds
from talos.resource.changes import modify, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

OBJECT = b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {enabled: yes, at: 2024-01-01}\n"


def test_objects_of_all_documents_and_lists_are_found() -> None:
    text = OBJECT + b"---\n---\nkind: List\napiVersion: v1\nitems:\n- " + OBJECT.replace(b"\n", b"\n  ")
    found = parse_objects(text)
    assert [one["metadata"]["name"] for one in found] == ["a", "a"]
    assert found[0]["metadata"]["labels"] == {"enabled": "yes", "at": "2024-01-01"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "no valid YAML"),
        ("- a", "line 1: an object needs apiVersion, kind and metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", "an object needs"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [" + "*b," * 300_000 + "]", "too many"),
    ],
)
def test_mistakes_have_a_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_objects(text)


def test_what_fails_is_named_and_tried_again_and_the_others_are_there() -> None:
    lines: list[str] = []
    far = "http://far.example/far"
    site = Site(
        {
            "/bad": [(503, {}, b"")],
            "/late": [(500, {}, b""), (200, {}, OBJECT)],
            far: [(200, {}, OBJECT)],
        }
    )

    async def main(url: str) -> None:
        state = MemoryState()

        def configure(spec: ExtraManifestsConfigSpec) -> None:
            for name in ("bad", "late"):
                spec.extra_manifests.add(name=name, priority="99", url=f"{url}/{name}")
            spec.extra_manifests.add(name="far", priority="99", url=far)
            spec.extra_manifests.add(name="inline", priority="99", inline_manifest=OBJECT.decode())
            spec.extra_manifests.add(name="wrong", priority="99", inline_manifest="kind: Pod")

        variables = [f"http_proxy={url}", "no_proxy=127.0.0.1"]
        await put(state, *ids.ENVIRONMENT, EnvironmentSpec(variables=variables))
        await modify(state, *ids.EXTRA_MANIFESTS_CONFIG, configure, owner="test")
        async with trio.open_nursery() as nursery:
            controller = ExtraManifestController(Log(write=lines.append))
            await nursery.start(run_controllers, state, [controller])
            with trio.fail_after(REAL_TIMEOUT):
                wanted = {"99-far", "99-inline", "99-late"}
                while {one.id for one in await state.list(kinds.MANIFEST)} != wanted:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            (diagnostic,) = await state.list(kinds.DIAGNOSTIC)
            assert [one.partition(":")[0] for one in diagnostic.spec.details] == ["bad", "wrong"]
            nursery.cancel_scope.cancel()

    with site.serving() as url:
        trio.run(main, url)
    text = "\n".join(lines)
    assert f"the manifest bad is left out: {site.url}/bad: the server replied 503" in text
    assert "the manifest wrong is left out: line 1: an object needs apiVersion" in text


def test_a_name_that_is_a_url_shows_no_secret_and_is_the_only_one() -> None:
    first, second = (make_name(f"https://me:planted@h/x?ref={part}") for part in ("planted", "other"))
    assert first != second
    assert first.startswith("https://h/x?ref=***#")
    assert "planted" not in first
    assert make_name("https://me:planted@h/x") == "https://h/x"
    assert make_name("mine") == "mine"
