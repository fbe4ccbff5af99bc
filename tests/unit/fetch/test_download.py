"""Files come from a mirror, an index or a proxy by HTTP, and none with another hash is taken."""

import hashlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import override

import download
import gomodules
import pytest
import wheels
from download import Download, copy_to, fetch, mirrored, without_password
from locks import GoModule, Input, Wheel
from report import FetchError

CONTENT = b"what was locked"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(SimpleHTTPRequestHandler):
    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep pytest's output clean."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the URI at which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that the store would have got."""
    names: list[str] = []
    monkeypatch.setattr(download, "SCRATCH", tmp_path / "scratch")
    monkeypatch.setattr(wheels, "SCRATCH", tmp_path / "scratch")
    monkeypatch.setattr(download, "RETRY_DELAY", 0.0)

    def add(files: list[Path]) -> None:
        names.extend(file.name for file in files)

    monkeypatch.setattr(download, "add_files", add)
    return names


def test_what_a_server_has_is_added_and_the_rest_is_returned(
    served: tuple[Path, str], added: list[str]
) -> None:
    folder, uri = served
    items = [Input(f"file-{number}", SHA256) for number in range(100)]
    for item in items[1:]:
        (folder / item.store_name).write_bytes(CONTENT)
    assert fetch([Download(item, f"{uri}/{item.store_name}") for item in items], "files") == items[:1]
    assert sorted(added) == sorted(item.store_name for item in items[1:])


def test_another_content_is_refused(served: tuple[Path, str], added: list[str]) -> None:
    folder, uri = served
    (folder / "x").write_bytes(b"another")
    with pytest.raises(FetchError, match=f"x: sha256 is .*, not {SHA256}"):
        fetch([Download(Input("x", SHA256), f"{uri}/x")], "files")
    assert added == []


def test_a_server_that_is_down_is_named_without_the_password(added: list[str]) -> None:
    with pytest.raises(FetchError, match=r"^http://127\.0\.0\.1:1/x: .*refused") as failed:
        fetch([Download(Input("x", SHA256), "http://me:secret@127.0.0.1:1/x")], "files")
    assert "secret" not in str(failed.value)
    assert added == []


def test_a_password_becomes_a_header() -> None:
    request = download.request("https://me:p%40ss@host/x")
    assert (request.full_url, request.get_header("Authorization")) == ("https://host/x", "Basic bWU6cEBzcw==")
    assert without_password("https://me:secret@host:1/x") == "https://host:1/x"
    with pytest.raises(FetchError, match="only http, https and file"):
        download.request("ftp://host/x")


def test_a_mirror_is_a_folder_or_a_uri(
    served: tuple[Path, str], added: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, other = Input("libfoo_1+b1.deb", SHA256), Input("other", SHA256)
    folder, uri = served
    source = tmp_path / "in-store"
    source.write_bytes(CONTENT)
    assert (copy_to(folder, [item], [source]), copy_to(folder, [item], [source])) == (1, 0)
    for place in (str(folder), uri):
        monkeypatch.setenv("FETCH_MIRROR", place)
        assert fetch(mirrored([item, other]), "files") == [other]
    assert added == [item.store_name] * 2
    monkeypatch.delenv("FETCH_MIRROR")
    assert mirrored([item]) == []


def test_a_wheel_is_found_on_its_projects_page(
    served: tuple[Path, str], added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, uri = served
    wheel = Wheel("foo", "1.0+local", SHA256, "foo-1.0+local-py3-none-any.whl")
    (folder / "simple/foo").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "files" / wheel.file).write_bytes(CONTENT)
    links = (
        f'<a data-x="1" href="../../files/foo-{v}-py3-none-any.whl#sha256=0">x</a>'
        for v in ("0.9", "1.0%2Blocal")
    )
    (folder / "simple/foo/index.html").write_text("\n".join(links))
    monkeypatch.setattr(wheels, "has_pip", lambda: False)
    monkeypatch.setattr(wheels, "missing", list[Input])
    monkeypatch.setenv("PIP_INDEX_URL", f"{uri}/simple/")
    wheels.fetch({"image": [wheel]})
    assert added == [wheel.file]
    monkeypatch.delenv("PIP_INDEX_URL")
    with pytest.raises(FetchError, match="has no pip; install it, or set PIP_INDEX_URL"):
        wheels.fetch({"image": [wheel]})


def test_a_module_comes_from_the_first_proxy_that_has_it(
    served: tuple[Path, str], added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, uri = served
    module = GoModule(path="git.example/Me/x", version="v1.0.0", zip=SHA256, mod=SHA256)
    place = folder / "proxy/git.example/!me/x/@v"
    place.mkdir(parents=True)
    for suffix in ("zip", "mod"):
        (place / f"v1.0.0.{suffix}").write_bytes(CONTENT)
    monkeypatch.setenv("GOPROXY", f"{uri}/empty,{uri}/proxy|direct")
    gomodules.by_http([module], list(module.inputs()))
    assert sorted(added) == ["git.example-Me-x-v1.0.0.mod", "git.example-Me-x-v1.0.0.zip"]
    monkeypatch.setenv("GOPROXY", "direct")
    with pytest.raises(FetchError, match="no go command on this machine; set GOPROXY"):
        gomodules.by_http([module], list(module.inputs()))


def test_two_versions_of_a_project_are_downloaded_by_two_calls(
    tmp_path: Path, added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip refuses them in one, and the sets of wheels may differ in a version."""
    wanted = (("markdown", "1.0"), ("packaging", "26.3"), ("packaging", "26.4"), ("pygments", "2.0"))
    items = [Wheel(name, version, SHA256, f"{name}-{version}-py3-none-any.whl") for name, version in wanted]
    calls: list[list[str]] = []

    def download_all(command: list[str]) -> str:
        lines = Path(command[command.index("--requirement") + 1]).read_text().splitlines()
        calls.append([line.partition(" ")[0].replace("==", "-") for line in lines])
        for name in calls[-1]:
            (tmp_path / "scratch/wheels" / f"{name}-py3-none-any.whl").write_bytes(CONTENT)
        return ""

    def add(files: list[Path]) -> None:
        added.extend(file.name for file in files)

    monkeypatch.setattr(wheels, "run", download_all)
    monkeypatch.setattr(wheels, "add_files", add)
    wheels.by_pip(items)
    assert calls == [["markdown-1.0", "packaging-26.3", "pygments-2.0"], ["packaging-26.4"]]
    assert added == [item.file for item in (items[0], items[1], items[3], items[2])]
