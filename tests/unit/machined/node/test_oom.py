"""What is measured, when it is too much, and which group ends."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import OOM_RANKING, OOM_TRIGGER
from talos.config.cel.types import DOUBLE
from talos.machined.node import oom
from talos.machined.node.oom import Candidate, MemoryClass

MIB = 1 << 20
DEFAULT_TRIGGER = (
    "multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0, Podruntime: 4.0}) > 3000.0 && "
    "multiply_qos_vectors(qos_memory_full_avg10, {System: 1.0, Podruntime: 1.0}) > 5.0 && "
    'time_since_trigger > duration("5s")'
)
DEFAULT_RANKING = (
    "memory_max.hasValue() ? 0.0 : "
    "{Besteffort: 1.0, Burstable: 0.5, Guaranteed: 0.0, Podruntime: 0.0, System: 0.0}[class] * "
    "double(memory_current.orValue(0u))"
)
"""Upstream's defaults."""
TRIGGER = compile_expression(DEFAULT_TRIGGER, OOM_TRIGGER, where="")
RANKING = compile_expression(DEFAULT_RANKING, OOM_RANKING, where="", result=DOUBLE)


def pressure(full_avg10: float, full_total: int) -> str:
    return (
        "some avg10=9.00 avg60=1.00 avg300=0.10 total=900000\n"
        f"full avg10={full_avg10:.2f} avg60=0.00 avg300=0.00 total={full_total}\n"
    )


def make_group(root: Path, path: str, **files: object) -> None:
    (root / path).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / path / name.replace("_", ".", 1)).write_text(f"{content}\n")


def make_tree(root: Path, *, avg10: float = 0.0, total: int = 0) -> None:
    for path in ("init", "system", "podruntime", "kubepods/besteffort", "kubepods/burstable"):
        make_group(root, path, memory_pressure=pressure(0, 0), memory_current=MIB, memory_max="max")
    make_group(root, "system", memory_pressure=pressure(avg10, total))
    make_group(root, "kubepods/podguaranteed", memory_pressure=pressure(1, 5), memory_current=7 * MIB)
    make_group(root, "kubepods/besteffort/poda", memory_current=4 * MIB, memory_max="max")
    make_group(root, "kubepods/besteffort/podb", memory_current=9 * MIB, memory_max="max")
    make_group(root, "kubepods/burstable/podc", memory_current=100 * MIB, memory_max="max")
    make_group(root, "kubepods/burstable/podd", memory_current=900 * MIB, memory_max=1000 * MIB)


def test_a_sample_has_every_class(tmp_path: Path) -> None:
    make_tree(tmp_path, avg10=12.5, total=70)
    sample = oom.take_sample(1.0, {"some_avg10": 3.0}, tmp_path)
    assert sample.node["some_avg10"] == 3.0
    assert sample.classes["memory_full_avg10"] == {0: 0, 1: 0, 2: 1, 3: 0, 4: 12.5}
    assert sample.classes["memory_full_total"] == {0: 0, 1: 0, 2: 5, 3: 0, 4: 70}
    assert sample.classes["memory_current"][MemoryClass.GUARANTEED] == 7 * MIB
    assert sample.classes["memory_max"][MemoryClass.BESTEFFORT] == 0


def make_variables(root: Path, *, avg10: float, total: int, since: float = 60.0) -> oom.Variables:
    make_tree(root)
    before = oom.take_sample(10.0, {}, root)
    make_tree(root, avg10=avg10, total=total)
    return oom.make_variables(oom.take_sample(10.5, {}, root), before, timedelta(seconds=since))


@pytest.mark.parametrize(
    ("avg10", "total", "since", "holds"),
    [
        (12.0, 200, 60, True),  # 400 us a second, eight times
        (12.0, 180, 60, False),
        (5.0, 200, 60, False),
        (12.0, 200, 5, False),
        (12.0, 200, 5.1, True),
    ],
)
def test_the_default_trigger_is_upstreams_expression(
    tmp_path: Path, *, avg10: float, total: int, since: float, holds: bool
) -> None:
    variables = make_variables(tmp_path, avg10=avg10, total=total, since=since)
    assert oom.is_triggered(variables) is holds
    assert TRIGGER.is_true(variables) is holds


def test_an_expression_may_use_every_variable(tmp_path: Path) -> None:
    variables = make_variables(tmp_path, avg10=1.0, total=100)
    assert set(variables) == set(OOM_TRIGGER.variables)
    text = "d_qos_memory_full_total[System] == 200.0 && qos_memory_current[Guaranteed] == double(7u * MiB)"
    assert compile_expression(text, OOM_TRIGGER, where="").is_true(variables)


def test_the_first_sample_has_no_change(tmp_path: Path) -> None:
    make_tree(tmp_path, total=1000)
    variables = oom.make_variables(oom.take_sample(1.0, {}, tmp_path), None, timedelta())
    assert variables["d_qos_memory_full_total"][MemoryClass.SYSTEM] == 0


def test_the_default_ranking_is_upstreams_expression(tmp_path: Path) -> None:
    make_tree(tmp_path)
    found = {one.path.name: one for one in oom.find_candidates(tmp_path)}
    scores = {name: oom.rank(one) for name, one in found.items()}
    assert scores["podb"] == 9 * MIB
    assert scores["podc"] == 50 * MIB
    assert scores["podd"] == 0, "it has a maximum"
    assert scores["podguaranteed"] == 0
    assert scores == {name: RANKING.evaluate(oom.describe(one)) for name, one in found.items()}


@pytest.mark.parametrize(("strict", "victim"), [(True, "podb"), (False, "podc")])
def test_the_least_important_class_goes_first(tmp_path: Path, *, strict: bool, victim: str) -> None:
    make_tree(tmp_path)
    chosen = oom.choose(oom.find_candidates(tmp_path), oom.rank, strict=strict)
    assert chosen is not None
    assert chosen[0].path.name == victim


def test_what_has_no_process_is_no_victim(tmp_path: Path) -> None:
    make_tree(tmp_path)
    make_group(tmp_path, "kubepods/besteffort/podb", cgroup_events="populated 0\nfrozen 0")
    make_group(tmp_path, "kubepods/besteffort/poda", cgroup_events="populated 1\nfrozen 0")
    chosen = oom.choose(oom.find_candidates(tmp_path), oom.rank, strict=True)
    assert chosen is not None
    assert chosen[0].path.name == "poda"


def test_a_debug_container_is_worth_as_little_as_a_pod_of_besteffort(tmp_path: Path) -> None:
    make_tree(tmp_path)
    make_group(tmp_path, "debug/debug-1", memory_current=50 * MIB, memory_max="max")
    chosen = oom.choose(oom.find_candidates(tmp_path), oom.rank, strict=True)
    assert chosen is not None
    assert chosen[0].path.name == "debug-1"


@pytest.mark.parametrize(("free", "is_short"), [(10, True), (62, True), (63, False), (900, False)])
def test_a_node_with_free_memory_is_not_short_of_it(*, free: int, is_short: bool) -> None:
    assert oom.is_short({"MemTotal": 1000, "MemFree": free, "MemAvailable": 999}) is is_short


def test_without_a_score_nothing_ends(tmp_path: Path) -> None:
    make_tree(tmp_path)
    assert oom.choose(oom.find_candidates(tmp_path), lambda _: 0.0, strict=True) is None
    assert oom.choose(iter(()), oom.rank, strict=True) is None


def test_a_node_without_pods_has_classes_without_pressure(tmp_path: Path) -> None:
    sample = oom.take_sample(0.0, {}, tmp_path)
    assert sample.classes["memory_current"] == dict.fromkeys(range(5), 0.0)
    assert list(oom.find_candidates(tmp_path)) == []


def test_variables_are_shown_as_upstream_does(tmp_path: Path) -> None:
    shown: Mapping[str, object] = oom.to_json(make_variables(tmp_path, avg10=1.0, total=100))
    assert shown["time_since_trigger"] == 60_000_000_000
    assert shown["qos_memory_full_avg10"] == {"0": 0.0, "1": 0.0, "2": 1.0, "3": 0.0, "4": 1.0}


def test_a_candidate_knows_what_is_not_counted() -> None:
    candidate = Candidate(path=Path("/x"), kind=MemoryClass.SYSTEM, maximum=None, current=None, peak=None)
    assert oom.describe(candidate)["memory_peak"] is None
    assert oom.rank(candidate) == 0
