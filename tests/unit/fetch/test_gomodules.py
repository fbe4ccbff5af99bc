"""Modules are found in a cache by the go command's rules, and the lock has what each set needs."""

import subprocess
import sys
from pathlib import Path

import pytest
from gomodules import STAGING_LINE, cache_file, find_name, read_json_stream
from locks import PKGS, GoLock, GoModule, expand, on_demand_names, read_go, read_roots
from report import FetchError

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_capitals_are_escaped_in_a_cache(tmp_path: Path) -> None:
    module = GoModule(path="github.com/NYTimes/gziphandler", version="v1.1.1", zip=EMPTY, mod=EMPTY)
    file = cache_file(tmp_path, module, ".zip")
    assert file == tmp_path / "cache/download/github.com/!n!y!times/gziphandler/@v/v1.1.1.zip"
    assert find_name(file.relative_to(tmp_path / "cache/download")) == module.name


def test_files_have_legal_names_in_the_store() -> None:
    module = GoModule(path="git.example/~me/x", version="v2.0.1+incompatible", zip=EMPTY, mod=EMPTY)
    names = [item.store_name for item in module.inputs()]
    assert names == ["git.example--me-x-v2.0.1+incompatible.zip", "git.example--me-x-v2.0.1+incompatible.mod"]


def test_a_set_needs_the_compiler_and_each_module_once() -> None:
    modules = {
        name: GoModule(path=name.split("@")[0], version="v1", zip=EMPTY, mod=EMPTY)
        for name in ("a@v1", "b@v1", "go@v1")
    }
    lock = GoLock(modules=modules, sets={"toolchain": ["go@v1"], "one": ["a@v1"], "two": ["a@v1", "b@v1"]})
    assert [module.name for module in lock.modules_of(["one", "two"])] == ["a@v1", "b@v1", "go@v1"]
    assert lock.modules_of([]) == []


def test_the_lock_has_every_set_of_the_roots() -> None:
    assert read_go().sets.keys() == {"toolchain", *read_roots()["go"]["sets"]}


def test_an_unknown_root_is_named_with_the_known_ones() -> None:
    with pytest.raises(FetchError, match=r"no such root: nonsense; known: .*etcd"):
        expand(["kernel", "nonsense"])


def test_values_that_follow_each_other_are_read() -> None:
    assert read_json_stream('{"Path": "a"}\n{\n\t"Path": "b"\n}\n') == [{"Path": "a"}, {"Path": "b"}]
    assert read_json_stream("") == []


def test_libraries_in_folders_are_found() -> None:
    text = "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tx => y v1\n)\n"
    assert STAGING_LINE.findall(text) == ["k8s.io/api"]


def test_a_group_stands_for_its_roots() -> None:
    assert expand(["machines", "etcd", "vm"]) == sorted({*read_roots()["groups"]["machines"], "etcd", "vm"})
    for members in read_roots()["groups"].values():
        assert set(members) <= set(on_demand_names())


def test_a_set_that_is_resolved_anew_leaves_the_others_as_they_are() -> None:
    old, kept, new = (
        GoModule(path="a", version=version, zip=EMPTY, mod=EMPTY) for version in ("v1", "v2", "v3")
    )
    lock = GoLock({"a@v1": old, "a@v2": kept}, {"one": ["a@v1"], "two": ["a@v2"]})
    assert lock.with_set("one", [new]) == GoLock(
        {"a@v2": kept, "a@v3": new}, {"one": ["a@v3"], "two": ["a@v2"]}
    )


def test_a_lock_of_something_else_is_refused() -> None:
    argv = [sys.executable, "-B", str(PKGS / "fetch"), "lock", "etcd", "nonsense"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("fetch: no such lock: nonsense; known: debian, wheels, go, "), result
    assert "etcd" in result.stderr
