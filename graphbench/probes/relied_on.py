"""What each feature relies on of torch beside its public functions, checked with torch 2.11, 2.13 and 2.14: data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from graphbench.probes.probe import Probe

FeatureName = Literal[
    "capturing",
    "compiling",
    "options",
    "mapping",
    "labelling",
    "measuring",
    "recording",
    "replacing",
    "CUDA",
    "breaks",
    "refusals",
    "scalars",
    "Triton",
]


@dataclass(frozen=True, slots=True)
class Feature:
    """A part of graphbench, and what it relies on.

    Args:
        what: it in a sentence: "torch 3.0 is not as WHAT needs it".
        probes: what it relies on.
        without: what a profile lacks where it is switched off; "" for a feature without which nothing is measured.
    """

    what: str
    probes: tuple[Probe, ...]
    without: str = ""


_AUTOGRAD: Final = "torch._C._autograd._saved_tensors_hooks_"
_AOT: Final = "torch._functorch._aot_autograd"
_METRICS: Final = (
    *("compile_id", "co_name", "co_filename", "co_firstlineno", "entire_frame_compile_time_s", "recompile_reason"),
    *("fail_type", "fail_reason", "fail_user_frame_filename", "fail_user_frame_lineno", "config_suppress_errors"),
    *("is_forward", "is_runtime"),
)
_PRECISIONS: Final = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")

FEATURES: Final[dict[FeatureName, Feature]] = {
    "capturing": Feature(
        "capturing a graph of Dynamo's with its inputs and ambient state",
        (
            Probe("torch._guards.CompileContext.current_compile_id", given=(0, ())),
            Probe("torch._dynamo.eval_frame.innermost_fn", given=(1, ())),
            Probe("torch._dynamo.exc.RestartAnalysis"),
            Probe("torch._dynamo.reset", given=(0, ())),
            Probe("torch.fx.node._get_qualified_name", given=(1, ())),
            Probe("torch._ops.OpOverload", has=("_schema", "_opname", "overloadpacket", "namespace", "tags")),
            Probe("torch._ops.OpOverloadPacket", has=("_qualified_op_name",)),
            Probe("torch.SymInt", has=("node",)),
            Probe("torch._subclasses.fake_tensor.FakeTensor"),
            Probe("torch.fx.experimental.sym_node.SymNode", has=("hint", "has_hint", "expr", "is_nested_int")),
            Probe("torch.utils._python_dispatch.is_traceable_wrapper_subclass", given=(1, ())),
            Probe("torch._mkldnn"),
            Probe("torch.autocast_increment_nesting"),
            Probe("torch.autocast_decrement_nesting"),
            Probe("torch._C._functorch.get_dynamic_layer_stack_depth"),
            Probe("torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth"),
            Probe("torch._C._functorch.is_functorch_wrapped_tensor"),
            Probe(f"{_AUTOGRAD}is_enabled"),
            Probe(f"{_AUTOGRAD}enable"),
            *(Probe(f"torch.backends.{name}.fp32_precision") for name in _PRECISIONS),
        ),
    ),
    "compiling": Feature(
        "compiling through Inductor past its caches",
        (
            Probe("torch._inductor.compile_fx.compile_fx", given=(2, ("inner_compile", "config_patches"))),
            Probe("torch._inductor.compile_fx.compile_fx_inner", given=(2, ("is_backward",))),
            Probe("torch._inductor.compile_fx._CompileFxKwargs", has=("is_backward", "cudagraphs")),
            Probe("torch._dynamo.convert_frame.compile_lock", has=("__enter__", "__exit__")),
            Probe("torch._functorch.config.enable_autograd_cache"),
            Probe("torch._inductor.config.fx_graph_cache"),
            Probe("torch._inductor.config.fx_graph_remote_cache"),
            Probe("torch._inductor.config.get_config_copy", given=(0, ())),
        ),
    ),
    "options": Feature(
        "passing modes and options on to Inductor",
        (
            Probe("torch._inductor.list_mode_options", given=(0, ())),
            Probe("torch._inductor.config.get_type", given=(1, ())),
            Probe("torch._dynamo.list_backends", given=(0, ("exclude_tags",))),
            Probe("torch._dynamo.backends.registry.lookup_backend", given=(1, ())),
        ),
    ),
    "mapping": Feature(
        "mapping kernels to nodes",
        (
            Probe(
                "torch._inductor.debug.set_kernel_post_grad_provenance_tracing",
                parameters=("node_schedule", "kernel_name", "is_extern"),
            ),
            Probe("torch._inductor.config.trace.provenance_tracking_level"),
            Probe("torch._inductor.config.joint_custom_pre_pass"),
            Probe("torch._inductor.fx_passes.joint_graph.joint_graph_passes", has=("__code__",)),
            Probe("torch._inductor.scheduler.BaseSchedulerNode", has=("node", "read_writes", "get_name")),
            Probe("torch._inductor.dependencies.ReadWrites", has=("reads", "writes")),
            Probe("torch._inductor.dependencies.Dep", has=("name", "numbytes_hint", "get_numel")),
            Probe("torch._inductor.dependencies.WeakDep", has=("name",)),
            Probe("torch._inductor.ir.IRNode", has=("origins", "origin_node", "get_mutation_names")),
            Probe("torch._inductor.ir.Operation", has=("operation_name", "get_operation_name")),
            Probe("torch._inductor.ir.Buffer", has=("name", "get_mutation_names")),
            Probe("torch._inductor.ir.ExternKernel", has=("inputs",)),
            Probe("torch._inductor.ir.MultiOutput", has=("inputs", "get_name")),
            Probe("torch._inductor.graph.GraphLowering.try_get_buffer", given=(2, ())),
            Probe("torch._inductor.graph.GraphLowering.get_dtype", given=(2, ())),
            Probe("torch._inductor.sizevars.SizeVarAllocator.remove_precomputed_replacements", given=(2, ())),
            Probe("torch._inductor.virtualized.V", has=("graph",)),
            Probe("torch.fx.traceback.NodeSource", has=("node_info", "from_node")),
            Probe("torch.fx.traceback.NodeSource.NodeInfo", has=("graph_id", "name")),
            Probe("torch.fx.traceback.NodeSource.__init__", writes=("from_node",)),
            Probe("torch.fx.proxy.TracerBase.create_node", writes=("seq_nr",)),
            Probe(f"{_AOT}.graph_capture_wrappers.set_partitioner_tag", writes=("partitioner_tag",)),
            Probe(f"{_AOT}.graph_capture_wrappers.set_partitioner_tag_is_backward", writes=("is_backward",)),
        ),
    ),
    "labelling": Feature(
        "labelling the kernel calls of a generated wrapper",
        (
            Probe(
                "torch._inductor.output_code.CompiledFxGraph",
                has=(
                    *("compiled_fn_runner", "current_callable", "source_code", "fx_kwargs"),
                    *("disabled_cudagraphs_reason", "cudagraph_info", "partition_maps"),
                    *("device_types", "device_idxs", "mutated_input_idxs"),
                ),
            ),
            Probe("torch._inductor.output_code.CompiledFxGraph.__call__", parameters=("self", "inputs")),
            Probe(
                "torch._inductor.codegen.wrapper.PythonWrapperCodegen.write_launcher_fn_call_get_indent",
                writes=("class Runner:", "def __init__(self, partitions)", "def call(self, args)"),
            ),
            Probe(
                "torch._inductor.codegen.wrapper.PythonWrapperCodegen.write_provenance_debug_handle",
                writes=(" [Provenance debug handles] ",),
            ),
            Probe("torch._inductor.codegen.cpp.CppScheduling", writes=("async_compile.cpp_pybinding(",)),
            Probe("torch._inductor.codegen.common.KernelArgs.output", writes=("out_ptr",)),
            Probe("torch._inductor.codegen.common.KernelArgs.make_inplace", writes=("in_out_ptr",)),
            Probe("torch._inductor.codegen.common.WorkspaceArg.inner_name", value="ws_ptr"),
            Probe(
                "torch._inductor.runtime.triton_heuristics.CachingAutotuner",
                has=("fn", "run", "mutated_arg_names", "reset_to_zero_arg_names"),
            ),
            Probe("torch._inductor.config.triton.cudagraphs"),
            Probe("torch._inductor.cudagraph_trees.reset_cudagraph_trees", given=(0, ()), cuda=True),
            Probe("torch._inductor.cudagraph_trees.get_manager", given=(1, ("create_if_none_exists",)), cuda=True),
            Probe("torch._inductor.cudagraph_trees.CUDAGraphTreeManager", has=("set_to_running_backward",), cuda=True),
        ),
    ),
    "measuring": Feature(
        "replaying and isolating ops",
        (
            Probe("torch.utils._python_dispatch.TorchDispatchMode", has=("ignore_compile_internals", "__enter__")),
            Probe("torch.utils._python_dispatch.is_in_any_mode_without_ignore_compile_internals", given=(0, ())),
            Probe("torch.utils._python_dispatch._disable_current_modes", given=(0, ())),
            Probe("torch.utils._python_dispatch._get_current_dispatch_mode", given=(0, ())),
            Probe("torch.utils._python_dispatch._get_current_dispatch_mode_stack", given=(0, ())),
            Probe("torch.utils._python_dispatch._pop_mode", given=(0, ())),
            Probe("torch.utils._python_dispatch._push_mode", given=(1, ())),
            Probe("torch.utils._device.DeviceContext"),
            Probe("torch.overrides._get_current_function_mode_stack", given=(0, ())),
            Probe("torch.overrides._pop_mode", given=(0, ())),
            Probe("torch.overrides._push_mode", given=(1, ())),
            Probe("torch.utils.flop_counter.flop_registry", has=("get",)),
            Probe("torch.utils.flop_counter.sdpa_flop_count", given=(3, ())),
            Probe("torch._ops.HigherOrderOperator", has=("name",)),
            Probe("torch._ops.OpOverload.decompose"),
            Probe("torch._C._dispatch_has_kernel_for_dispatch_key"),
            Probe("torch._C._functions.AccumulateGrad"),
            Probe("torch._C.DisableTorchFunctionSubclass"),
            Probe("torch._library.custom_ops.OPDEFS", has=("get",)),
            Probe("torch._library.custom_ops.CustomOpDef", has=("_init_fn",)),
            Probe("torch._library.opaque_object.is_opaque_value_type", given=(1, ())),
            Probe(
                "torch._higher_order_ops.triton_kernel_wrap.kernel_side_table", has=("get_kernel", "get_constant_args")
            ),
            Probe("torch._higher_order_ops.triton_kernel_wrap.triton_kernel_wrapper_mutation"),
            Probe("torch._higher_order_ops.flat_apply.flat_apply"),
            Probe(
                "torch._dynamo.variables.misc.produce_trampoline_autograd_apply", writes=("trampoline_autograd_apply",)
            ),
            Probe("torch._dynamo.eval_frame.OptimizedModule"),
            Probe("torch._conj", given=(1, ())),
            Probe("torch._neg_view", given=(1, ())),
            Probe("torch._int_mm", given=(2, ())),
            Probe("torch._scaled_mm"),
            *(
                Probe(f"torch.utils._pytree.{name}")
                for name in (
                    *("keystr", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_leaves", "tree_map"),
                    *("tree_map_only", "tree_unflatten"),
                )
            ),
        ),
    ),
    "recording": Feature(
        "recording a step",
        (
            Probe("torch._C._current_autograd_node"),
            Probe("torch._C._current_graph_task_id"),
            Probe("torch.autograd._get_sequence_nr"),
            Probe("torch.autograd.graph._engine_run_backward"),
            Probe("torch.autograd._make_grads"),
            Probe("torch._dynamo.utils.counters", has=("get",)),
            Probe("torch._dynamo.resume_execution.TORCH_DYNAMO_RESUME_IN_PREFIX", value="torch_dynamo_resume_in"),
            Probe("torch._inductor.codecache.get_path", given=(2, ())),
            Probe("torch.nn.Module", has=("_compiled_call_impl",)),
        ),
    ),
    "replacing": Feature(
        "trying other implementations and configurations",
        (
            Probe(f"{_AOT}.frontend_utils._try_get_metadata_from_dynamo", writes=("_param_name_to_source",)),
            Probe("torch._dynamo.config.recompile_limit"),
            Probe("torch._dynamo.list_backends", given=(0, ("exclude_tags",))),
        ),
    ),
    "CUDA": Feature(
        "timing on CUDA",
        (
            Probe("torch.cuda._sleep", cuda=True),
            Probe("torch.cuda._is_in_bad_fork", given=(0, ()), cuda=True),
            Probe("torch.autograd._profiler_enabled", cuda=True),
            Probe("torch._C._cuda_hasPrimaryContext", cuda=True),
            Probe("torch._C._demangle", cuda=True),
            Probe("torch.cuda.memory_stats_as_nested_dict", cuda=True),
        ),
    ),
    "breaks": Feature(
        "reading graph breaks and recompiles",
        (
            Probe("torch._dynamo.utils.graph_break_reasons"),
            Probe("torch._dynamo.output_graph.GraphCompileReason", has=("reason", "user_stack")),
            Probe("torch._dynamo.utils.get_compilation_metrics", given=(0, ())),
            Probe("torch._dynamo.utils.CompilationMetrics", has=_METRICS),
            Probe("torch._dynamo.utils.counters", has=("get",)),
            Probe("torch._dynamo.convert_frame.input_codes", has=("seen",)),
        ),
        without="graph breaks and recompiles are unknown",
    ),
    "refusals": Feature(
        "reading why the scheduler did not fuse",
        (
            Probe("torch._inductor.scheduler.WhyNoFuse", has=("name1", "name2")),
            Probe("torch._inductor.scheduler.WhyNoFuse.__call__", parameters=("self", "reason", "args")),
        ),
        without="why kernels were not fused is unknown",
    ),
    "scalars": Feature(
        "following Python numbers that become tensors",
        (
            Probe(f"{_AOT}.graph_compile._apply_tensorify_python_scalars", parameters=("module",)),
            Probe("torch.fx.GraphModule._set_replace_hook", given=(2, ())),
        ),
        without="kernels of Python numbers that became tensors may have no node",
    ),
    "Triton": Feature(
        "reading Triton's configurations",
        (Probe("torch._inductor.runtime.triton_heuristics.CachingAutotuner", has=("launchers",)),),
        without="the configurations of Triton kernels are unknown",
    ),
}
"""By name; those without which nothing is measured first."""
