"""``/proc/cpuinfo`` and the frequencies in ``/sys/devices/system/cpu``."""

import re
from dataclasses import dataclass

from talos.system.files import Files

CPU_DIR = "/sys/devices/system/cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuInfo:
    """One logical processor, by the kernel's names."""

    processor: int = 0
    vendor_id: str = ""
    cpu_family: str = ""
    model: str = ""
    model_name: str = ""
    stepping: str = ""
    microcode: str = ""
    cpu_mhz: float = 0.0
    cache_size: str = ""
    physical_id: str = ""
    siblings: int = 0
    core_id: str = ""
    cpu_cores: int = 0
    apic_id: str = ""
    initial_apic_id: str = ""
    fpu: str = ""
    fpu_exception: str = ""
    cpu_id_level: int = 0
    wp: str = ""
    flags: tuple[str, ...] = ()
    bugs: tuple[str, ...] = ()
    bogo_mips: float = 0.0
    cl_flush_size: int = 0
    cache_alignment: int = 0
    address_sizes: str = ""
    power_management: str = ""


# arch/x86/kernel/cpu/proc.c and arch/arm64/kernel/cpuinfo.c
_FIELDS = {
    "processor": "processor",
    "vendor_id": "vendor_id",
    "CPU implementer": "vendor_id",
    "cpu family": "cpu_family",
    "CPU architecture": "cpu_family",
    "model": "model",
    "CPU variant": "model",
    "model name": "model_name",
    "CPU part": "model_name",
    "stepping": "stepping",
    "CPU revision": "stepping",
    "microcode": "microcode",
    "cpu MHz": "cpu_mhz",
    "cache size": "cache_size",
    "physical id": "physical_id",
    "siblings": "siblings",
    "core id": "core_id",
    "cpu cores": "cpu_cores",
    "apicid": "apic_id",
    "initial apicid": "initial_apic_id",
    "fpu": "fpu",
    "fpu_exception": "fpu_exception",
    "cpuid level": "cpu_id_level",
    "wp": "wp",
    "flags": "flags",
    "Features": "flags",
    "bugs": "bugs",
    "bogomips": "bogo_mips",
    "BogoMIPS": "bogo_mips",
    "clflush size": "cl_flush_size",
    "cache_alignment": "cache_alignment",
    "address sizes": "address_sizes",
    "power management": "power_management",
}
_INTEGERS = {"processor", "siblings", "cpu_cores", "cpu_id_level", "cl_flush_size", "cache_alignment"}
_FLOATS = {"cpu_mhz", "bogo_mips"}
_LISTS = {"flags", "bugs"}


def parse_cpuinfo(text: str) -> list[CpuInfo]:
    """The processors in the text of ``/proc/cpuinfo``, which are separated by empty lines."""
    return [_parse_processor(block) for block in text.split("\n\n") if "processor" in block]


def _parse_processor(block: str) -> CpuInfo:
    values: dict[str, str] = {}
    for line in block.splitlines():
        key, _, value = line.partition(":")
        name = _FIELDS.get(key.strip())
        if name:
            values.setdefault(name, value.strip())
    return CpuInfo(**{name: _convert(name, value) for name, value in values.items()})  # pyright: ignore[reportArgumentType] - the sets above name the fields by type


def _convert(name: str, value: str) -> object:
    if name in _INTEGERS:
        # A hypervisor may report -1: no CPUID at all.
        return max(int(value), 0) if value.lstrip("-").isdigit() else 0
    if name in _FLOATS:
        return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else 0.0
    return tuple(value.split()) if name in _LISTS else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFrequency:
    """Frequencies of one logical processor in kHz, as in sysfs; 0 when the kernel has none."""

    current_frequency: int = 0
    minimum_frequency: int = 0
    maximum_frequency: int = 0
    governor: str = ""


def read_cpu_frequencies(files: Files) -> list[CpuFrequency]:
    """The frequencies of every processor that scales; none under most hypervisors."""
    listed = files.list(CPU_DIR) if files.exists(CPU_DIR) else ()
    names = [name for name in listed if re.fullmatch(r"cpu\d+", name)]
    numbered = sorted(names, key=lambda name: int(name[3:]))
    return [
        _read_frequency(files, f"{CPU_DIR}/{name}/cpufreq")
        for name in numbered
        if files.exists(f"{CPU_DIR}/{name}/cpufreq")
    ]


def _read_frequency(files: Files, folder: str) -> CpuFrequency:
    def read(name: str) -> str:
        try:
            return files.read(f"{folder}/{name}").strip()
        except OSError:
            return ""

    def number(*names: str) -> int:
        found = (read(name) for name in names)
        return next((int(value) for value in found if value.isdigit()), 0)

    return CpuFrequency(
        # cpuinfo_cur_freq reads the hardware and exists only where the driver can.
        current_frequency=number("cpuinfo_cur_freq", "scaling_cur_freq"),
        minimum_frequency=number("cpuinfo_min_freq", "scaling_min_freq"),
        maximum_frequency=number("cpuinfo_max_freq", "scaling_max_freq"),
        governor=read("scaling_governor"),
    )
