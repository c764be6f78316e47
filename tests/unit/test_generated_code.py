"""A kernel's code is cut out of the wrapper that Inductor wrote: its own source, and the lines that call it."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.generated_code import RegionCode
from graphbench.records import GeneratedCode, KernelRecord
from tests import factories

WRAPPER = """\
from torch._inductor.async_compile import AsyncCompile

# kernel path: /somewhere/abc.py
# Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu]
# Graph fragment:
#   %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,))
triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', '''
import triton

@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, xnumel):
    pass
''', device_str='cuda')


cpp_fused_add_1 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* out_ptr0)
{
}
''')

class Runner:
    def call(self, args):
        # Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu]
        # [Provenance debug handles] triton_poi_fused_relu_0:1
        stream0 = get_raw_stream(0)
        triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)
        # [Provenance debug handles] cpp_fused_add_1:2
        cpp_fused_add_1(buf0)
        # Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
        # [Provenance debug handles] extern_kernels.mm:3
        extern_kernels.mm(
            buf0, arg1_1,
            out=buf1)
        return (buf1, )
"""
CODE = RegionCode(
    dataclasses.replace(factories.region(), code=(GeneratedCode(phase="forward", text=WRAPPER),)),
)


def called_at(text: str, **changes: object) -> KernelRecord:
    """The kernel whose call begins with `text`."""
    line = next(i for i, written in enumerate(WRAPPER.splitlines(), 1) if written.strip().startswith(text))
    return dataclasses.replace(factories.kernel("k"), **{"line": line, **changes})


def test_a_triton_kernel_has_its_source_with_the_graph_it_computes() -> None:
    found = CODE.of(called_at("triton_poi_fused_relu_0.run"))
    assert found is not None
    assert found.language == "triton"
    first, *_, last = found.source.splitlines()
    assert first == "# Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu]"
    assert "%relu : [num_users=1]" in found.source
    assert last == "    pass"
    assert "kernel path" not in found.source


def test_a_call_has_the_comment_above_it_though_a_stream_is_fetched_between() -> None:
    found = CODE.of(called_at("triton_poi_fused_relu_0.run"))
    assert found is not None
    assert found.call == (
        "# Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu]\n"
        "triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)"
    )


def test_a_cpp_kernel_has_its_source() -> None:
    found = CODE.of(called_at("cpp_fused_add_1("))
    assert found is not None
    assert found.language == "cpp"
    assert found.source == 'extern "C" void kernel(float* out_ptr0)\n{\n}'
    assert found.call == "cpp_fused_add_1(buf0)"


def test_a_library_call_has_no_source_and_a_call_of_all_its_lines() -> None:
    found = CODE.of(called_at("extern_kernels.mm"))
    assert found is not None
    assert (found.language, found.source) == ("python", "")
    assert found.call.endswith("extern_kernels.mm(\n    buf0, arg1_1,\n    out=buf1)")


@pytest.mark.parametrize("changes", [{"line": None}, {"line": 10_000}, {"line": 0}, {"phase": "backward"}])
def test_where_nothing_is_known_there_is_no_code(changes: dict[str, object]) -> None:
    assert CODE.of(called_at("cpp_fused_add_1(", **changes)) is None


@pytest.mark.parametrize("odd", ["\x0c", "\u2028", "\x85", "\x1d"])
def test_lines_are_counted_as_python_counts_them(odd: str) -> None:
    """A kernel that the user wrote may hold any character in a comment."""
    text = WRAPPER.replace("import triton\n", f"import triton  # {odd} page\n")
    line = text[: text.index("triton_poi_fused_relu_0.run")].count("\n") + 1
    code = RegionCode(dataclasses.replace(factories.region(), code=(GeneratedCode(phase="forward", text=text),)))
    found = code.of(dataclasses.replace(factories.kernel("k"), line=line))
    assert found is not None
    assert found.call.endswith("triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)")
    assert found.language == "triton"
    assert found.source.endswith("    pass")


def test_the_whole_wrapper_can_be_had() -> None:
    assert CODE.wrapper("forward") == WRAPPER.rstrip("\n")
    assert CODE.wrapper("backward") is None
