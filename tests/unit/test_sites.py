"""Kernel calls found and rewritten in wrapper source of the shapes that Inductor generates."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from graphbench.inductor.sites import HOOK_NAME, cpp_arguments, instrument, kernel_kind

WRAPPER = '''
cpp_fused_relu_0 = async_compile.cpp_pybinding(['float*', 'const float*'], r"""void kernel() {}""")

def partition_0(args):
    arg0_1, arg1_1 = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float32)
        # [Provenance debug handles] triton_poi_fused_add_0:1
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_0.run(arg0_1, buf0, 16, stream=stream0)
    return (buf0, )

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        primals_1, primals_2 = args
        args.clear()
        assert_size_stride(primals_1, (4, 4), (4, 1))
        buf1 = empty_strided_cpu((4, 4), (4, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.mm]
        # [Provenance debug handles] extern_kernels.mm:2
        extern_kernels.mm(primals_1, reinterpret_tensor(primals_2, (4, 4), (1, 4), 0), out=buf1)
        buf2 = buf1; del buf1  # reuse
        # [Provenance debug handles] cpp_fused_relu_0:3
        cpp_fused_relu_0(buf2, primals_2)
        # [Provenance debug handles] torch.ops.aten.topk.default:4
        buf3 = torch.ops.aten.topk.default(buf2, 2)
        buf4 = buf3[0]
        aten.index_put_(buf2, [buf4], buf4, False)
        return (buf2, buf4, )
'''


def test_every_call_is_found_with_its_key_in_source_order() -> None:
    found = instrument(WRAPPER).sites
    assert [site.key for site in found] == [
        "triton_poi_fused_add_0:1",
        "extern_kernels.mm:2",
        "cpp_fused_relu_0:3",
        "torch.ops.aten.topk.default:4",
        "unmarked.aten.index_put_:32",
    ]


def test_a_call_that_inductor_never_announced_is_named_and_has_no_handle() -> None:
    site = instrument(WRAPPER).sites[-1]
    assert (site.name, site.handle, site.kind) == ("unmarked.aten.index_put_", None, "fallback")


def test_sites_know_the_variables_they_write_to() -> None:
    add, mm, relu, topk, _ = instrument(WRAPPER).sites
    assert add.arguments == ("arg0_1", "buf0", None)
    assert mm.target == "buf1"
    assert relu.arguments == ("buf2", "primals_2")
    assert topk.target == "buf3"


def test_rewritten_calls_go_through_the_hook_and_compute_the_same() -> None:
    calls: list[int] = []
    source = "def f(x):\n    # [Provenance debug handles] k:7\n    y = k(x, scale=2)\n    return y\n"
    namespace = {
        HOOK_NAME: lambda site, function, *args, **kwargs: calls.append(site) or function(*args, **kwargs),
        "k": lambda x, scale: x * scale,
    }
    exec(compile(instrument(source).definitions, "wrapper", "exec"), namespace)
    assert namespace["f"](21) == 42
    assert calls == [0]


def test_only_non_const_pointers_of_a_cpp_kernel_are_written() -> None:
    assert cpp_arguments(ast.parse(WRAPPER)) == {"cpp_fused_relu_0": (frozenset({0}), frozenset())}


def test_in_out_pointers_of_a_cpp_kernel_are_read_too() -> None:
    code = 'extern "C" void  kernel(float* in_out_ptr0,\n  const float* in_ptr0,\n  float* out_ptr1)\n{}'
    types = ["float*", "const float*", "float*"]
    wrapper = f"cpp_fused_add_0 = async_compile.cpp_pybinding({types!r}, {code!r})"
    assert cpp_arguments(ast.parse(wrapper)) == {"cpp_fused_add_0": (frozenset({0, 2}), frozenset({0}))}


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("triton_red_fused_sum_0.run", "triton"),
        ("triton_tem_fused_mm_1.run", "template"),
        ("add_kernel_0.run", "user-triton"),
        ("extern_kernels.addmm", "extern"),
        ("torch.ops.mkldnn._linear_pointwise.default", "extern"),
        ("torch.ops.aten.sort.stable", "fallback"),
        ("aten.randint.low_out", "fallback"),
        ("torch.ops._c10d_functional.all_reduce_.default", "collective"),
        ("torch.ops.mylib.foo.default", "custom"),
        ("cpp_fused_add_0", "cpp"),
    ],
)
def test_kernel_kinds(function: str, kind: str) -> None:
    assert kernel_kind(function, {"cpp_fused_add_0"}) == kind


WORKSPACE = """
class Runner:
    def call(self, workspace_0, s0):
        # [Provenance debug handles] triton_mix:4
        mixed = triton_mix(workspace_0)
        buf0 = workspace_0[0 * s0 * 2 : (0 + 1) * s0 * 2].view(s0, 2).sum(dim=0)
        buf1 = workspace_0[1 * s0 * 2 : (1 + 1) * s0 * 2].view(s0, 2).amax(dim=0).view([1, 2]).to(torch.bfloat16)
        return buf0, buf1
"""


def test_the_last_step_on_a_workspace_is_a_call_of_its_own() -> None:
    found = instrument(WORKSPACE).sites
    assert [(site.name, site.target, site.arguments, site.reduces_workspace) for site in found] == [
        ("triton_mix", "mixed", ("workspace_0",), False),
        ("workspace.sum", "buf0", ("workspace_0", "s0"), True),
        ("workspace.amax", "buf1", ("workspace_0", "s0"), True),
    ]


def test_all_of_a_last_step_runs_inside_the_hook() -> None:
    class Numbers(list[int]):
        """Stands for a tensor: every method tells that it ran."""

        def __getitem__(self, part: object) -> Numbers:  # type: ignore[override]
            ran.append("slice")
            return self

        def view(self, *shape: object) -> Numbers:
            ran.append("view")
            return self

        def sum(self, dim: int) -> Numbers:
            ran.append("sum")
            return self

        def amax(self, dim: int) -> Numbers:
            ran.append("amax")
            return self

        def to(self, dtype: object) -> Numbers:
            ran.append("to")
            return self

    ran: list[str] = []

    def hook(site: int, function: Callable[..., object], *args: object) -> object:
        ran.append(f"{site}:")
        return function(*args)

    torch_like = SimpleNamespace(bfloat16="bf16")
    namespace = {HOOK_NAME: hook, "torch": torch_like, "triton_mix": lambda workspace: None}
    exec(compile(instrument(WORKSPACE).definitions, "wrapper.py", "exec"), namespace)
    namespace["Runner"]().call(Numbers(), 3)  # type: ignore[operator]
    assert ran == ["0:", "1:", "slice", "view", "sum", "2:", "slice", "view", "amax", "view", "to"]
