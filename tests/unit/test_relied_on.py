"""Nothing of torch's that is private is relied on without a probe, or without a reason for having none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphbench.probes.relied_on import FEATURES

PACKAGE = Path(__file__).parents[2] / "graphbench"
PROBED = {probe.symbol: probe for feature in FEATURES.values() for probe in feature.probes}
DOTTED = re.compile(r"torch(?:\.\w+)+")

# Named in docstrings or code, and not probed: the symbol, and why.
UNPROBED = {
    "torch._C": "torch cannot be imported without it",
    "torch._dynamo.config.patch": "public way to set options",
    "torch._functorch.config.patch": "public way to set options",
    "torch._inductor.config.patch": "public way to set options",
    "torch._inductor.compile": "public",
    "torch._inductor.list_options": "named in a hint; public",
    "torch._dynamo.exc.TorchRuntimeError": "only to explain an error; without it the error is shown as it is",
    "torch._dynamo.exc.augment_exc_message": "a text that is read where it has the known form",
    "torch._dynamo.exc.format_graph_break_message": "a text that is read where it has the known form",
    "torch._dynamo.utils.get_fake_value": "a text that is read where it has the known form",
    "torch._dynamo.guards.get_verbose_code_part": "a text that is read where it has the known form",
    "torch._dynamo.backends.registry": "finds the backend; without it this code does not run",
    "torch._functorch.config.donated_buffer": "named in an explanation of torch's own error",
    "torch._functorch.partitioners._extract_fwd_bwd_modules": "names that are compared, read of saved profiles",
    "torch._inductor.scheduler.Scheduler.can_fuse": "a rule of thumb of the analysis, which says so",
    "torch._inductor.scheduler.Scheduler": "where it has no such method, no reason is known",
    "torch._inductor.scheduler.Scheduler.should_partition": "where it returns no text, no reason is known",
    "torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen": "says who writes partitions; its text is read",
    "torch._inductor.output_code.cudagraph_partition_post_compile": "checks that graphbench repeats; no call of it",
    "torch._inductor.output_code.maybe_handle_backward_generation": "a step that graphbench repeats; no call of it",
    "torch._inductor.cudagraph_utils.check_for_mutation": "a check that graphbench repeats; no call of it",
    "torch._inductor.compile_fx._InProcessFxCompile.codegen_and_compile": "says when a graph changes; no call of it",
    "torch._inductor.cpp_builder.get_cpp_compiler": "only doctor asks, and tells what it raised",
    "torch._inductor.runtime.cache_dir_utils.default_cache_dir": "only doctor asks, and tells what it raised",
    "torch._TorchCompileInductorWrapper.apply_options": "a check that graphbench repeats; no call of it",
    "torch._weights_only_unpickler": "the module that an error came from, read of its traceback",
    "torch._dynamo.backends.distributed.SubmodCompiler.run_node": "says who calls compiled graphs on fake tensors",
    "torch._inductor.pattern_matcher.LoweringPatternEntry.apply": "says who makes such calls; their module is compared",
    "torch._C._functorch._vmap_increment_nesting": "names that are compared; where others are, ops inside fail by name",
    "torch._inductor.inductor_prims": "written into a script for the user",
    "torch.amp.autocast_mode._enter_autocast": "arguments of a graph's node, checked one by one",
    "torch.nested._internal.nested_int.NestedIntNode": "a size that no integer is made of; the row says so",
    "torch._C._dispatch_get_all_op_names": "where a list of namespaces was read",
    "torch.ops._c10d_functional": "a namespace that is compared",
    "torch.distributed._functional_collectives": "a module that is compared",
}


def modules() -> list[Path]:
    return sorted(file for file in PACKAGE.rglob("*.py") if "probes" not in file.parts)


def is_private(symbol: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in symbol.split("."))


def named_in_sources(file: Path) -> Iterator[str]:
    """Private symbols behind `Source:` in docstrings."""
    for entry in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(entry, ast.Constant) and isinstance(entry.value, str):
            for text in entry.value.split("Source:")[1:]:
                yield from filter(is_private, DOTTED.findall(text.split("\n\n")[0]))


def dotted(entry: ast.expr) -> str | None:
    """`a.b.c` of such an expression, `None` of any other."""
    if isinstance(entry, ast.Attribute):
        owner = dotted(entry.value)
        return None if owner is None else f"{owner}.{entry.attr}"
    return entry.id if isinstance(entry, ast.Name) else None


def read_by_code(file: Path) -> Iterator[str]:
    """Private symbols that code imports, or reads as attributes of a module that it imported."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: dict[str, str] = {}
    for entry in ast.walk(tree):
        if isinstance(entry, ast.Import):
            for alias in entry.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(entry, ast.ImportFrom) and entry.module:
            names.update((alias.asname or alias.name, f"{entry.module}.{alias.name}") for alias in entry.names)
            yield from (f"{entry.module}.{alias.name}" for alias in entry.names)
    inner = {id(entry.value) for entry in ast.walk(tree) if isinstance(entry, ast.Attribute)}
    for entry in ast.walk(tree):
        if isinstance(entry, ast.Attribute) and id(entry) not in inner:
            first, _, rest = (dotted(entry) or "").partition(".")
            if first in names and rest:
                yield f"{names[first]}.{rest}"


def is_covered(symbol: str) -> bool:
    """Whether it is probed, or belongs to what is, or is but the module of what is; or needs no probe."""
    probed = any(symbol == name or symbol.startswith(f"{name}.") or name.startswith(f"{symbol}.") for name in PROBED)
    return probed or symbol in UNPROBED


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_private_symbol_is_probed_or_has_a_reason_not_to_be(file: Path) -> None:
    read = (symbol for symbol in read_by_code(file) if symbol.startswith("torch.") and is_private(symbol))
    assert {symbol for symbol in (*named_in_sources(file), *read) if not is_covered(symbol)} == set()


def test_reasons_are_for_symbols_that_are_named() -> None:
    named = {symbol for file in modules() for symbol in DOTTED.findall(file.read_text(encoding="utf-8"))}
    reads = {symbol for file in modules() for symbol in read_by_code(file)}
    everything = named | reads
    stale = [
        name for name in UNPROBED if not any(entry == name or entry.startswith(f"{name}.") for entry in everything)
    ]
    assert stale == []


def test_no_symbol_is_probed_twice_for_a_feature() -> None:
    for name, feature in FEATURES.items():
        symbols = [probe.symbol for probe in feature.probes]
        assert sorted(set(symbols)) == sorted(symbols), name
