"""Finds the kernel calls in Inductor's generated wrapper source and rewrites each into a call of a hook. No torch."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from graphbench.provenance.claims import IrNode, KernelOrigins
from graphbench.records import KernelKind

HOOK_NAME = "GRAPHBENCH_KERNEL_CALL"  # no leading underscores: names inside a class would be mangled
MARK = re.compile(r"\[Provenance debug handles\] (.+):(\d+)\s*$")
# Calls between a mark and its kernel, or elsewhere, that launch nothing.
HOST_CALLS = re.compile(
    r"(^|\.)(get_raw_stream|empty_strided\w*|_?empty_strided_\w+|reinterpret_tensor|_?alloc_from_pool|assert_\w+|clear|append|item"
    r"|synchronize|set_device|_DeviceGuard|size|stride|len|range|print|record_function|recursively_apply_fns|partition_\d+)$"
)
WORKSPACE = "workspace."
RUNNER = "Runner"
CPP_SIGNATURE = re.compile(r"\bkernel\(([^)]*)\)")
UNMARKED_KERNEL = re.compile(
    r"^(extern_kernels\.|torch\.ops\.|aten\.|inductor_ops\.|_quantized\.|cpp_fused|triton_)|\.run$"
)


@dataclass(frozen=True, slots=True)
class Site:
    """One kernel call in the wrapper.

    `key` is Inductor's `name:handle`, or `unmarked.FUNCTION:LINE` for a call that it never announced. `position` counts
    the wrapper's kernel calls from 1; unlike the handle it does not depend on what was compiled before. `arguments` are
    the variables passed by position and `target` the one assigned; `None` where it is no variable. `line` of the source
    is where the call begins, counted from 1.
    """

    key: str
    position: int
    name: str
    handle: int | None
    kind: KernelKind
    arguments: tuple[str | None, ...]
    target: str | None
    line: int | None = None

    @property
    def reduces_workspace(self) -> bool:
        """Whether it is the last step of a mix-order reduction, which torch does on the kernel's workspace.

        Source: `SIMDScheduling._codegen_mix_order_reduction`, torch 2.11, 2.13 and 2.14:
            `buf0 = workspace_0[a : b].view(c, d).sum(dim=0)`, with more views and a cast behind it.
        """
        return self.name.startswith(WORKSPACE)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A wrapper's classes and functions, rewritten, with the sites that the hook is called for."""

    definitions: ast.Module
    sites: tuple[Site, ...]

    @property
    def has_runner(self) -> bool:
        """Whether there is the class that Inductor's wrappers have, with the method that runs them."""
        runners = [entry for entry in self.definitions.body if isinstance(entry, ast.ClassDef) and entry.name == RUNNER]
        return any(
            isinstance(entry, ast.FunctionDef) and entry.name == "call" for each in runners for entry in each.body
        )


def instrument(source: str) -> Instrumented:
    """Rewrite every kernel call `f(a, out=b)` into `HOOK(site, f, a, out=b)`.

    Args:
        source: `CompiledFxGraph.source_code`; with `trace.provenance_tracking_level=1` each kernel call follows a
            comment `[Provenance debug handles] NAME:HANDLE`, not always directly.

    Source: `PythonWrapperCodegen.write_provenance_debug_handle`, torch 2.11, 2.13 and 2.14.
    """
    module = ast.parse(source)
    marks = _marks(source)
    definitions = [node for node in module.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    cpp_kernels = set(cpp_arguments(module))
    sites: list[Site] = []
    for definition in definitions:
        _rewrite(definition, marks, cpp_kernels, sites)
    return Instrumented(ast.fix_missing_locations(ast.Module([*definitions], [])), tuple(sites))


def _marks(source: str) -> list[tuple[int, str, int]]:
    """The lines with marks, and the name and handle of each."""
    return [
        (line, match[1], int(match[2]))
        for line, text in enumerate(source.splitlines(), 1)
        if (match := MARK.search(text))
    ]


def unheard(source: str, announced: Sequence[str]) -> str:
    """Why a wrapper does not fit the kernels that were announced while it was generated; "" if it does.

    Args:
        source: as for `instrument`.
        announced: `name:handle` of each.
    """
    marked = dict.fromkeys(f"{name}:{handle}" for _, name, handle in _marks(source))
    if announced and not marked:
        return f"no call in the generated code is marked with its kernel, such as {announced[0]}"
    missed = [key for key in marked if key not in announced]
    return f"{missed[0]} is called in the generated code, but was not announced" if missed else ""


def all_kernels(kernels: Sequence[KernelOrigins], sites: Sequence[Site]) -> tuple[KernelOrigins, ...]:
    """Kernels as Inductor's scheduler announced them, and the calls that only the wrapper tells of.

    In-place fallbacks (`aten.scatter_reduce_`, `aten.index_put_`) write into their first argument. The last step of a
    mix-order reduction makes the buffer that was announced as its kernel's; the kernel itself makes parts of it.

    Args:
        kernels: as announced.
        sites: all calls of the wrapper.
    """
    last_steps = {site.target: site for site in sites if site.reduces_workspace and site.target is not None}
    found: list[KernelOrigins] = []
    for kernel in _parted(kernels, sites):
        split = [ir for ir in kernel.irs if ir.buffer in last_steps]
        parts = {ir.buffer: replace(ir, buffer=f"{ir.buffer} in parts", exact=None) for ir in split}
        found.append(replace(kernel, irs=tuple(parts.get(ir.buffer, ir) for ir in kernel.irs)))
        found += [
            KernelOrigins(
                last_steps[ir.buffer].key, is_extern=False, irs=(replace(ir, reads=(parts[ir.buffer].buffer,)),)
            )
            for ir in split
        ]
    others = (site for site in sites if site.handle is None and not site.reduces_workspace)
    return (*found, *(KernelOrigins(site.key, is_extern=True, irs=(_written_by(site),)) for site in others))


def _parted(kernels: Sequence[KernelOrigins], sites: Sequence[Site]) -> list[KernelOrigins]:
    """Kernels with what each of them writes, where several were announced for all that they write together.

    Ops over lists of tensors become one kernel for each size. Which buffers are a kernel's own, its call tells.

    Source: `SIMDScheduling.codegen_combo_kernel`, torch 2.11, 2.13 and 2.14.
    """
    passed = {site.key: set(site.arguments) for site in sites}
    announced = Counter(_buffers(kernel) for kernel in kernels if not kernel.is_extern)
    found = []
    for kernel in kernels:
        known = passed.get(kernel.key, set())
        own = tuple(ir for ir in kernel.irs if ir.buffer in known or not known.isdisjoint(ir.mutates))
        is_part = not kernel.is_extern and announced[_buffers(kernel)] > 1 and own
        found.append(replace(kernel, irs=own) if is_part else kernel)
    return found


def _buffers(kernel: KernelOrigins) -> tuple[str, ...]:
    return tuple(ir.buffer for ir in kernel.irs)


def _written_by(site: Site) -> IrNode:
    arguments = tuple(name for name in site.arguments if name is not None)
    made = site.target or f"{site.key} of {arguments[0] if arguments else 'nothing'}"
    return IrNode(
        buffer=made, exact=None, origins=(), reads=arguments, mutates=arguments[:1] if site.target is None else ()
    )


class CppArguments(NamedTuple):
    """Positions of a C++ kernel's arguments that it writes, and of those that it reads as well."""

    written: frozenset[int]
    updated: frozenset[int]


def cpp_arguments(module: ast.Module) -> dict[str, CppArguments]:
    """What each C++ kernel of a wrapper writes: the non-const pointers of its declared signature.

    Those that it reads too have parameters `in_out_ptr*` in its code.

    Source: `async_compile.cpp_pybinding([types], code)`, `torch._inductor.codegen.common.KernelArgs.make_inplace`,
        torch 2.11 to 2.14.
    """
    found: dict[str, CppArguments] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(call := statement.value, ast.Call):
            target = statement.targets[0]
            if isinstance(target, ast.Name) and ast.unparse(call.func) == "async_compile.cpp_pybinding":
                types = ast.literal_eval(call.args[0])
                code = str(call.args[1].value) if isinstance(call.args[1], ast.Constant) else ""
                signature = CPP_SIGNATURE.search(code)
                names = [part.split()[-1] for part in signature[1].split(",") if part.strip()] if signature else []
                written = (i for i, name in enumerate(types) if name.endswith("*") and not name.startswith("const "))
                updated = (i for i, name in enumerate(names) if "in_out_ptr" in name)
                found[target.id] = CppArguments(frozenset(written), frozenset(updated))
    return found


def _rewrite(definition: ast.AST, marks: list[tuple[int, str, int]], cpp_kernels: set[str], sites: list[Site]) -> None:
    previous = getattr(definition, "lineno", 0)
    for statement, call in _calls(definition):
        function = ast.unparse(call.func)
        reduction = _workspace_reduction(call)
        if reduction:
            sites.append(_workspace_site(len(sites) + 1, statement, call, reduction))
            hooked = _call_of_whole(len(sites) - 1, call)
        else:
            pending = [mark for mark in marks if previous < mark[0] < statement.lineno]
            known = pending or UNMARKED_KERNEL.search(function) or function in cpp_kernels
            if HOST_CALLS.search(function) or not known:
                continue
            previous = statement.end_lineno or statement.lineno
            sites.append(_site(len(sites) + 1, statement, call, function, pending, cpp_kernels))
            hooked = ast.Call(
                ast.Name(HOOK_NAME, ast.Load()), [ast.Constant(len(sites) - 1), call.func, *call.args], call.keywords
            )
        statement.value = ast.copy_location(hooked, call)


def _workspace_reduction(call: ast.Call) -> str:
    """The method that reduces, when the expression is a chain of methods on a part of a workspace; otherwise empty."""
    methods: list[str] = []
    inner: ast.expr = call
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        methods.append(inner.func.attr)
        inner = inner.func.value
    of_workspace = isinstance(inner, ast.Subscript) and ast.unparse(inner.value).startswith("workspace")
    return next((name for name in methods if name not in ("view", "to")), "") if of_workspace else ""


def _call_of_whole(site: int, call: ast.Call) -> ast.Call:
    """The hook called with the whole expression as a function of the variables in it: all of it is the kernel."""
    names = _variables(call)
    whole = ast.Lambda(
        ast.arguments(
            posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        call,
    )
    arguments: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
    return ast.Call(ast.Name(HOOK_NAME, ast.Load()), [ast.Constant(site), whole, *arguments], [])


def _variables(call: ast.Call) -> list[str]:
    names = sorted((node for node in ast.walk(call) if isinstance(node, ast.Name)), key=lambda name: name.col_offset)
    return [name for name in dict.fromkeys(node.id for node in names) if name != "torch"]


def _workspace_site(position: int, statement: ast.Expr | ast.Assign, call: ast.Call, reduction: str) -> Site:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    name = f"{WORKSPACE}{reduction}"
    return Site(
        position=position,
        key=f"{name}:{statement.lineno}",
        name=name,
        handle=None,
        kind="fallback",
        arguments=tuple(_variables(call)),
        target=target.id if isinstance(target, ast.Name) else None,
        line=statement.lineno,
    )


def _calls(definition: ast.AST) -> Iterator[tuple[ast.Expr | ast.Assign, ast.Call]]:
    """Statements that are a call or assign one, in source order."""
    found = [
        node
        for node in ast.walk(definition)
        if isinstance(node, (ast.Expr, ast.Assign)) and isinstance(node.value, ast.Call)
    ]
    for statement in sorted(found, key=lambda node: node.lineno):
        if isinstance(statement.value, ast.Call):
            yield statement, statement.value


def _site(
    position: int,
    statement: ast.Expr | ast.Assign,
    call: ast.Call,
    function: str,
    pending: list[tuple[int, str, int]],
    cpp_kernels: set[str],
) -> Site:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    out = next((keyword.value for keyword in call.keywords if keyword.arg == "out"), None)
    name, handle = (pending[-1][1], pending[-1][2]) if pending else (f"unmarked.{function}", None)
    return Site(
        position=position,
        key=f"{name}:{handle if handle is not None else statement.lineno}",
        name=name,
        handle=handle,
        kind=kernel_kind(function, cpp_kernels),
        arguments=tuple(argument.id if isinstance(argument, ast.Name) else None for argument in call.args),
        target=target.id if isinstance(target, ast.Name) else out.id if isinstance(out, ast.Name) else None,
        line=statement.lineno,
    )


def kernel_kind(function: str, cpp_kernels: set[str]) -> KernelKind:
    """What kind of kernel the wrapper's expression `function` calls."""
    if function in cpp_kernels or function.startswith("cpp_"):
        return "cpp"
    if function.endswith(".run"):
        if function.startswith("triton_tem"):
            return "template"
        return "triton" if function.startswith("triton_") else "user-triton"
    if "c10d" in function:
        return "collective"
    if function.startswith(("extern_kernels.", "torch.ops.mkldnn.", "torch.ops.mkl.", "torch.ops.onednn.")):
        return "extern"
    if function.startswith(
        ("torch.ops.aten.", "aten.", "torch.ops.prims.", "inductor_ops.", "torch.ops.inductor.", "_quantized.")
    ):
        return "fallback"
    return "custom"
