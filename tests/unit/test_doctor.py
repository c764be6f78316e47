"""What each probe of `graphbench doctor` finds on machines of every kind, and how findings are printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pytest

from graphbench import cli
from graphbench.device_records import ClockState
from graphbench.doctor import compilers, gpu, packages, profilers
from graphbench.doctor.examine import PROBES, examine
from graphbench.doctor.finding import Finding
from graphbench.doctor.machine import Gpu, GpuState, Machine, Room, Torch
from graphbench.doctor.packages import EXTRAS, TARGET
from graphbench.doctor.text import as_json, as_text, summary
from graphbench.errors import SetupError, TimingError
from graphbench.probes.relied_on import FeatureName
from graphbench.report.paint import GREEN, RED, paint

T = TypeVar("T")
CPU = Torch(version="2.13.0+cpu")
H200 = Gpu(name="NVIDIA H200", capability=(9, 0), uuid="1234")
CUDA = Torch(version="2.11.0+cu130", cuda="13.0", gpus=(H200,))
NO_GPU = replace(CUDA, gpus=())
MISSING = SetupError("not installed: No module named 'torch'")
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug 27 2025"
CLOCKS = ClockState(sm_mhz=1980, memory_mhz=3201, temperature_c=34)


@dataclass
class Fake(Machine):
    """A machine on which everything is as it is told; by default all is well, and there is no GPU."""

    about: Torch | SetupError = CPU
    variables: Mapping[str, str] = field(default_factory=dict)
    root: bool = False
    installed: Mapping[str, str] = field(default_factory=lambda: {"triton": "3.6.0", "cupti-python": "13.0.1"})
    backends: Sequence[str] = (TARGET,)
    files: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    compiler: str | SetupError = "g++"
    compiler_fault: str = ""
    programs: Sequence[str] = ("g++", "gcc")
    disk: Room = field(default_factory=lambda: Room(free_bytes=50 << 30))
    library: tuple[str, str] | Exception = ("13.0.85", "/lib/libcupti.so.13")
    recorded: float | Exception = 1500.0
    state: GpuState | SetupError = field(
        default_factory=lambda: GpuState(clocks=CLOCKS, max_sm_mhz=1980, supported=100, persistence=True, mig=False)
    )
    tool: str = ""
    client: str = ""

    environ = property(lambda self: self.variables)  # type: ignore[assignment]
    is_root = property(lambda self: self.root)  # type: ignore[assignment]
    torch = property(lambda self: given(self.about))  # type: ignore[assignment]

    def distribution(self, name: str) -> str | None:
        return self.installed.get(name)

    def requirements(self, name: str) -> Sequence[str]:
        return ("filelock", 'triton==3.6.0; platform_system == "Linux"')

    def entry_points(self, group: str, name: str) -> Sequence[str]:
        return self.backends

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def imported(self, code: str) -> str:
        return self.broken.get(code, "")

    def torch_faults(self, feature: FeatureName) -> Sequence[str]:
        return self.faults.get(feature, ())

    def cpp_compiler(self) -> str:
        return given(self.compiler)

    def compiles(self, compiler: str) -> str:
        return self.compiler_fault

    def inductor_folder(self) -> Path:
        return Path("/cache/inductor")

    def room(self, folder: Path) -> Room:
        return self.disk

    def cupti(self) -> tuple[str, str]:
        return given(self.library)

    def cupti_client(self) -> str:
        given(self.library)
        return self.client

    def cupti_time_ns(self) -> float:
        return given(self.recorded)

    def gpu_state(self, uuid: str) -> GpuState:
        return given(self.state)

    def attached_tool(self) -> str:
        return self.tool


def given(value: T | Exception) -> T:
    if isinstance(value, Exception):
        raise value
    return value


def with_gpu(**changed: object) -> Fake:
    files = {gpu.DRIVER_FILE: DRIVER, gpu.CONTROL_DEVICE: "", gpu.PARAMETERS_FILE: "RmProfilingAdminOnly: 0\n"}
    return Fake(**{"about": CUDA, "files": files, **changed})  # type: ignore[arg-type]


# torch, the backend, optional packages


@pytest.mark.parametrize(
    ("about", "state", "words"),
    [
        (CPU, "ok", "2.13.0+cpu, built for the CPU only"),
        (CUDA, "ok", "2.11.0+cu130, built for CUDA 13.0"),
        (Torch(version="2.14.1", rocm="7.0"), "ok", "built for ROCm 7.0"),
        (Torch(version="2.11.0a0+vendor"), "ok", "2.11.0a0+vendor"),
        (Torch(version="2.10.1"), "problem", "needs 2.11 or newer"),
        (Torch(version="2.15.0.dev2026"), "warning", "newer than 2.14, the last release"),
        (Torch(version="3.0.0"), "warning", "newer than 2.14"),
        (MISSING, "problem", "install torch 2.11 to 2.14"),
    ],
    ids=str,
)
def test_torch_must_be_there_and_of_a_known_release(about: Torch | SetupError, state: str, words: str) -> None:
    (found,) = packages.torch(Fake(about=about))
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


@pytest.mark.parametrize(
    ("feature", "state", "words"),
    [
        ("mapping", "problem", "no mapping kernels to nodes with this torch"),
        ("breaks", "warning", "graph breaks and recompiles are unknown with this torch"),
    ],
)
def test_what_torch_lacks_is_named_with_the_feature_that_relies_on_it(feature: str, state: str, words: str) -> None:
    found = {entry.check: entry for entry in packages.parts(Fake(faults={feature: ("torch.x is not there",)}))}
    lacking = found.pop(f"torch: {feature}")
    assert lacking.state == state
    assert "not as expected: torch.x is not there" in lacking.found
    assert words in lacking.fix
    assert "2.11, 2.13 and 2.14" in lacking.fix
    assert {entry.state for entry in found.values()} == {"ok", "not applicable"}
    assert [check for check, entry in found.items() if entry.state == "not applicable"] == ["torch: CUDA"]


@pytest.mark.parametrize(
    ("backends", "state", "words"),
    [
        ((TARGET,), "ok", "graphbench.session:backend"),
        ((), "problem", "pip install ."),
        (("other:backend",), "problem", "leads to other:backend"),
        ((TARGET, "other:backend"), "problem", "uninstall the other"),
    ],
)
def test_the_backend_must_be_registered(backends: tuple[str, ...], state: str, words: str) -> None:
    (found,) = packages.backend(Fake(backends=backends))
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


def test_an_optional_package_is_imported_before_it_is_called_ok() -> None:
    torchvision = EXTRAS[0]
    there = {"torchvision": "0.26.0"}
    assert packages.extra(Fake(installed=there), torchvision).state == "ok"
    broken = packages.extra(
        Fake(installed=there, broken={"import torchvision": "operator nms does not exist"}), torchvision
    )
    assert (broken.state, "operator nms does not exist" in broken.found) == ("warning", True)
    absent = packages.extra(Fake(installed={}), torchvision)
    assert (absent.state, absent.fix) == ("not applicable", "pip install torchvision")


# compilers and caches


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        ({}, "ok", "/usr/bin/g++; builds with Python's headers and OpenMP"),
        ({"compiler": SetupError("none works", hint="install g++")}, "problem", "none works install g++"),
        ({"compiler_fault": "Python.h: No such file"}, "problem", "Python.h: No such file"),
        ({"compiler_fault": "Python.h: No such file", "about": CUDA}, "warning", "regions on the CPU cannot be"),
        ({"compiler": SetupError("none works"), "about": CUDA}, "warning", "regions on the CPU cannot be"),
    ],
)
def test_the_cpp_compiler_must_build_what_kernels_include(changed: dict[str, object], state: str, words: str) -> None:
    (found,) = compilers.cpp(Fake(**changed))  # type: ignore[arg-type]
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        ({}, "ok", "3.6.0; C compiler /usr/bin/gcc"),
        ({"programs": ("clang",)}, "ok", "C compiler /usr/bin/clang"),
        ({"installed": {}}, "problem", "reinstall torch"),
        ({"broken": {"import triton": "undefined symbol"}}, "problem", "undefined symbol"),
        ({"programs": ()}, "problem", "gcc and clang not found"),
        ({"variables": {"CC": "icc"}}, "problem", "CC=icc not found"),
        ({"installed": {"triton": "3.5.1"}}, "warning", "pip install triton==3.6.0"),
        ({"installed": {"triton": "3.6.0+git1"}}, "ok", "3.6.0+git1"),
    ],
)
def test_triton_needs_a_c_compiler_and_the_release_that_torch_names(
    changed: dict[str, object], state: str, words: str
) -> None:
    (found,) = compilers.triton(with_gpu(**changed))
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


@pytest.mark.parametrize(
    ("room", "of_inductor", "own"),
    [
        (Room(free_bytes=50 << 30), "ok", "ok"),
        (Room(fault="Permission denied"), "problem", "warning"),
        (Room(free_bytes=50 << 30, noexec=True), "problem", "ok"),
        (Room(free_bytes=1 << 20), "warning", "ok"),
    ],
    ids=str,
)
def test_caches_need_room_and_permission(room: Room, of_inductor: str, own: str) -> None:
    machine = Fake(disk=room)
    (inductors,), (ours,) = compilers.inductor_cache(machine), compilers.own_cache(machine)
    assert (inductors.state, ours.state) == (of_inductor, own)
    assert "/cache/inductor" in inductors.found
    assert ("TORCHINDUCTOR_CACHE_DIR" in inductors.fix) == (of_inductor != "ok")


# the GPU


@pytest.mark.parametrize(
    ("machine", "state", "words"),
    [
        (Fake(), "not applicable", "built without CUDA: models are measured on the CPU"),
        (Fake(about=Torch(version="2.13.0", rocm="7.0")), "not applicable", "ROCm"),
        (Fake(about=NO_GPU), "not applicable", "no NVIDIA driver is loaded here"),
        (
            with_gpu(about=NO_GPU, variables={"CUDA_VISIBLE_DEVICES": ""}),
            "not applicable",
            "CUDA_VISIBLE_DEVICES hides",
        ),
        (Fake(about=NO_GPU, files={gpu.DRIVER_FILE: DRIVER}), "not applicable", "this container was given no GPU"),
        (with_gpu(about=NO_GPU), "problem", "sees no GPU"),
        (with_gpu(about=replace(NO_GPU, warning="the driver is too old")), "problem", "sees no GPU: the driver is too"),
        (with_gpu(), "ok", "13.0; NVIDIA H200 (compute capability 9.0)"),
        (with_gpu(about=replace(CUDA, gpus=(replace(H200, capability=(7, 0)),))), "warning", "needs 7.5 or newer"),
    ],
)
def test_cuda_is_told_apart_from_no_gpu_and_from_a_broken_one(machine: Fake, state: str, words: str) -> None:
    (found,) = gpu.cuda(machine)
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


def test_the_driver_has_a_version() -> None:
    (found,) = gpu.driver(with_gpu())
    assert (found.state, found.found) == ("ok", "580.82.07")
    (untold,) = gpu.driver(with_gpu(files={}))
    assert untold.state == "not applicable"


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        ({}, "ok", "13.0.1; torch is built for CUDA 13.0"),
        ({"installed": {}}, "problem", 'pip install "cupti-python>=13.0.1,<14"'),
        ({"installed": {"cupti-python": "12.8.0"}}, "problem", "expected 13.x"),
        ({"about": replace(CUDA, cuda="12.8")}, "problem", "install a torch built for CUDA 13"),
    ],
)
def test_cuptis_binding_must_be_of_torchs_cuda(changed: dict[str, object], state: str, words: str) -> None:
    (found,) = gpu.cupti_python(with_gpu(**changed))
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


@pytest.mark.parametrize(
    ("changed", "states", "words"),
    [
        ({}, ["ok", "ok"], "13.0.85 (/lib/libcupti.so.13) a small kernel was recorded: 1.50"),
        (
            {"library": SetupError("2 copies are loaded", hint="remove one")},
            ["problem", "not applicable"],
            "remove one",
        ),
        ({"recorded": TimingError("nsys is attached", hint="run without it")}, ["ok", "problem"], "run without it"),
        ({"recorded": TimingError("no record")}, ["ok", "problem"], "no record another profiler may hold CUPTI"),
    ],
)
def test_cupti_must_load_and_bring_records(changed: dict[str, object], states: list[str], words: str) -> None:
    found = list(gpu.libcupti(with_gpu(**changed)))
    assert [entry.check for entry in found] == ["libcupti", "CUPTI records"]
    assert [entry.state for entry in found] == states
    assert words in " ".join(part for entry in found for part in (entry.found, entry.fix) if part)


@pytest.mark.parametrize(
    ("text", "root", "state", "words"),
    [
        ("RmProfilingAdminOnly: 1\n", False, "ok", "graphbench needs none, ncu"),
        ("RmProfilingAdminOnly: 1\n", True, "ok", "not restricted"),
        ("Mobile: 0\nRmProfilingAdminOnly: 0\n", False, "ok", "not restricted"),
        (None, False, "not applicable", "cannot be read"),
    ],
)
def test_restricted_counters_are_in_the_way_of_ncu_only(text: str | None, root: bool, state: str, words: str) -> None:
    files = {} if text is None else {gpu.PARAMETERS_FILE: text}
    (found,) = gpu.permission(with_gpu(files=files, root=root))
    assert found.state == state
    assert words in found.found


def told_of_clocks(state: GpuState | SetupError, *, root: bool = False) -> dict[str, Finding]:
    return {entry.check: entry for entry in gpu.clocks(with_gpu(state=state, root=root))}


def test_without_nvml_rows_have_no_clocks() -> None:
    found = told_of_clocks(SetupError("`pynvml` is not installed", hint="pip install nvidia-ml-py"))
    assert {check: entry.state for check, entry in found.items()} == {"NVML": "warning", "clocks": "not applicable"}
    assert found["NVML"].fix == "pip install nvidia-ml-py"


def test_clocks_are_told_with_what_holds_them_down() -> None:
    fine = told_of_clocks(Fake().state)["clocks"]
    assert (fine.state, fine.found.split(";")[0]) == ("ok", "SM 1980 MHz of at most 1980, memory 3201 MHz, 34 °C")
    held = replace(CLOCKS, sm_mhz=900, throttle=("software power cap",))
    found = told_of_clocks(GpuState(clocks=held))["clocks"]
    assert (found.state, "held down by software power cap" in found.found) == ("warning", True)
    assert "SM clock not told" in told_of_clocks(GpuState(clocks=ClockState()))["clocks"].found


@pytest.mark.parametrize(
    ("changed", "root", "state", "words"),
    [
        ({}, True, "ok", "100 clocks to choose from"),
        ({}, False, "not applicable", "clocks are root's to lock"),
        ({"mig": True}, True, "not applicable", "MIG slices"),
        ({"supported": 0}, True, "not applicable", "names no clocks"),
        ({"persistence": False}, True, "warning", "persistence mode is off"),
    ],
)
def test_whether_clocks_may_be_locked(changed: dict[str, object], root: bool, state: str, words: str) -> None:
    found = told_of_clocks(replace(Fake().state, **changed), root=root)["clock lock"]  # type: ignore[type-var]
    assert found.state == state
    assert words in found.found


def test_of_several_gpus_each_has_its_clocks() -> None:
    found = [entry.check for entry in gpu.clocks(with_gpu(about=replace(CUDA, gpus=(H200, H200))))]
    assert found[:2] == ["NVML of cuda:0", "clocks of cuda:0"]
    assert "clocks of cuda:1" in found


@pytest.mark.parametrize(
    ("machine", "state", "words"),
    [
        (Fake(), "ok", "none seen in this process"),
        (with_gpu(), "ok", "none seen in this process"),
        (with_gpu(tool="Nsight Systems (nsys)"), "problem", "Nsight Systems (nsys) is attached"),
        (Fake(tool="cuda-gdb"), "warning", "cuda-gdb is attached"),
        (with_gpu(variables={"CUDA_INJECTION64_PATH": "/x.so"}), "warning", "unset CUDA_INJECTION64_PATH"),
        (Fake(variables={"KINETO_USE_DAEMON": "1"}), "warning", "unset KINETO_USE_DAEMON"),
        (with_gpu(client="a subscriber of CUPTI's callbacks (status 39)"), "warning", "held by a subscriber"),
        (with_gpu(library=SetupError("no libcupti")), "ok", "none seen"),
    ],
)
def test_other_profilers_are_named(machine: Fake, state: str, words: str) -> None:
    (found,) = profilers.profilers(machine)
    assert found.state == state
    assert words in f"{found.found} {found.fix}"


# all of it


def states(machine: Machine) -> dict[str, str]:
    return {entry.check: entry.state for entry in examine(machine)}


def test_on_a_good_gpu_machine_nothing_is_wrong() -> None:
    found = states(with_gpu(root=True))
    assert not {"problem", "warning"} & set(found.values())
    assert {check for probe in PROBES for check in probe.checks} <= set(found)


def test_on_a_cpu_machine_what_is_for_gpus_says_why_it_does_not_apply() -> None:
    found = {entry.check: entry for entry in examine(Fake())}
    for check in ("Triton", "driver", "cupti-python", "libcupti", "CUPTI records", "permission", "NVML", "clocks"):
        assert (found[check].state, found[check].found) == ("not applicable", "torch 2.13.0+cpu is built without CUDA")
    assert found["C++ compiler"].state == "ok"


def test_without_torch_what_needs_it_says_so_and_the_rest_is_looked_at() -> None:
    found = {entry.check: entry for entry in examine(Fake(about=MISSING))}
    assert (found["torch"].state, found["backend"].state) == ("problem", "ok")
    assert {found[check].found for check in ("C++ compiler", "CUDA", "clocks", "other profilers")} == {"needs torch"}
    assert found["graphbench's cache"].state == "ok"


def test_a_gpu_that_torch_cannot_use_is_one_problem_and_not_ten() -> None:
    found = {entry.check: entry for entry in examine(with_gpu(about=NO_GPU))}
    assert [check for check, entry in found.items() if entry.state == "problem"] == ["CUDA"]
    assert found["libcupti"].found == "torch cannot use the GPU: see CUDA"


def test_a_probe_that_breaks_is_a_finding_and_not_a_traceback() -> None:
    class Broken(Fake):
        def inductor_folder(self) -> Path:
            raise KeyError("no user")

        def imported(self, code: str) -> str:
            raise OSError("no more processes")

    found = {entry.check: entry for entry in examine(Broken(installed={"timm": "1.0"}))}
    assert found["Inductor's cache"] == Finding(
        check="Inductor's cache", state="warning", found="could not be looked at: KeyError: 'no user'"
    )
    assert found["timm"].found == "could not be looked at: OSError: no more processes"


# what is printed

SOME = (
    Finding(check="torch", state="ok", found="2.13.0"),
    Finding(check="C++ compiler", state="problem", found="none works " * 12, fix="install g++"),
    Finding(check="driver", state="not applicable", found="no GPU"),
    Finding(check="NVML", state="not applicable", found="no GPU"),
    Finding(check="timm", state="warning", found="bro\x1bken", fix="reinstall it"),
)


def test_every_line_fits_and_what_does_not_apply_for_one_reason_is_one_line() -> None:
    text = as_text(SOME, version="0.1.0", width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "not applicable  2 more        no GPU (driver, NVML)\n" in text
    assert "warning         timm          bro·ken; fix: reinstall it\n" in text
    assert text.splitlines()[-1] == "1 problem, 1 warning: mend C++ compiler first"
    lines = [line.split("  ")[-1].strip() for line in text.splitlines()]
    assert "fix: install g++" in lines


def test_states_have_colours() -> None:
    painted = paint(as_text(SOME, version="0.1.0", width=80))
    assert f"\x1b[{GREEN}mok\x1b[0m              torch" in painted
    assert f"\x1b[{RED}mproblem\x1b[0m         C++ compiler" in painted


def test_without_a_problem_it_says_that_measuring_is_possible() -> None:
    assert summary(SOME[:1]) == "no problem, no warning: graphbench can measure here"


def test_json_has_every_finding() -> None:
    plain = json.loads(as_json(SOME, version="0.1.0"))
    assert (plain["graphbench"], plain["ok"], len(plain["findings"])) == ("0.1.0", False, 5)
    assert plain["findings"][0] == {"check": "torch", "state": "ok", "found": "2.13.0", "fix": ""}
    assert json.loads(as_json(SOME[:1], version="0.1.0"))["ok"] is True


@pytest.mark.parametrize(("about", "code"), [(CPU, 0), (MISSING, 3)])
def test_the_command_exits_with_3_where_a_problem_is_in_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], about: Torch | SetupError, code: int
) -> None:
    monkeypatch.setattr("graphbench.doctor.machine.Machine", lambda: Fake(about=about))
    assert cli.main(["doctor"]) == code
    assert capsys.readouterr().out.startswith("graphbench doctor (")
    assert cli.main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["ok"] == (code == 0)


def test_json_has_no_width(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json", "--width", "80"]) == 2
    assert "--width with --json" in capsys.readouterr().err


# the machine itself


def test_a_folder_that_is_not_there_is_judged_by_the_one_above_it_and_not_made(tmp_path: Path) -> None:
    room = Machine().room(tmp_path / "a" / "b")
    assert (room.fault, (room.free_bytes or 0) > 0) == ("", True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert "Not a directory" in Machine().room(tmp_path / "f").fault


def test_a_broken_import_is_told_by_its_last_line_and_a_crash_by_its_signal() -> None:
    machine = Machine()
    assert machine.imported("import json") == ""
    assert (
        machine.imported("import nothing_of_this_name") == "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    )
    assert "SIGKILL" in machine.imported("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


def test_a_compiler_that_fails_is_told_by_its_first_error(tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho 'note: x' >&2\necho 'probe.cpp:1: fatal error: Python.h: none' >&2\nexit 1\n")
    script.chmod(0o755)
    assert Machine().compiles(str(script)) == "probe.cpp:1: fatal error: Python.h: none"
    assert "No such file" in Machine().compiles(str(tmp_path / "none"))
