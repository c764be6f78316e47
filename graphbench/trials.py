"""Public functions that try something else with a model: another implementation of a node, other configurations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphbench.api import COMPARE_OPTIONS, Profile, current_session, measure_options
from graphbench.arguments import check_type
from graphbench.comparing.implementation import check_inputs
from graphbench.probes.features import require

if TYPE_CHECKING:
    from graphbench.configurations.compare import Configurations
    from graphbench.replacing.replacement import Replacement


class ConfigurationTable:
    """One model under several configurations. Printing it gives the tables.

    `result` has the rows and their samples; `profiles` are those of Inductor's modes, by name.
    """

    def __init__(self, result: Configurations) -> None:
        self.result = result
        self.profiles = {name: Profile(record) for name, record in result.profiles.items()}

    def __str__(self) -> str:
        return str(self.result)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()


def compare_configurations(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    configurations: Sequence[str],
    *,
    train: bool = False,
    dynamic: bool | None = None,
    **options: Any,
) -> ConfigurationTable:
    """Compile one model in several ways, and time whole steps of all of them in A B C C B A order.

    A configuration is `eager`, a mode of Inductor's (`default`, `reduce-overhead`, `max-autotune`, ...), or any backend
    that `torch._dynamo.list_backends(exclude_tags=())` names. Each is called once first: its result is compared with
    eager's, and one that raises is a row that says so. Those of Inductor are then profiled one after the other, and
    their nodes joined by name.

    Dynamo is reset before, between and afterwards, so whatever else was compiled compiles again when it is called.
    Buffers, gradients and random state are afterwards what they were.

    Args:
        model: a module that is not compiled, or a function.
        inputs: its positional arguments.
        configurations: names, at least two; times are compared with the first that runs.
        train: a step is forward, loss (`outputs.loss`, else the sum) and backward; by default one call under
            `torch.no_grad`. The model's training mode is left as it is.
        dynamic: as of `torch.compile`.
        **options: fields of `graphbench.options.MeasureOptions`.

    Raises:
        UsageError: an unknown configuration or option, or `train` with a function.
        SetupError: the instrument for the device is missing.
    """
    check_type("train", train, bool)
    check_type("dynamic", dynamic, bool | None)
    check_inputs(inputs, "compare_configurations")
    require("measuring", "replacing")
    from graphbench.configurations.compare import compare_sides
    from graphbench.configurations.subject import subject_of

    found = measure_options(options)
    subject = subject_of(model, inputs, train=train, dynamic=dynamic, name=found.subject)
    return ConfigurationTable(compare_sides(current_session(), subject, configurations, found))


def replace(
    node: str,
    candidate: Callable[..., Any],
    *,
    tolerance: float = 1.0,
    all_equal: bool = False,
    profile: Profile | None = None,
    **options: Any,
) -> Replacement:
    """Try another implementation in a node's place, on what was captured: alone, and inside the compiled graph.

    The region is replayed eagerly to find the node's arguments, and both are called on copies of them: a candidate
    whose result differs, which writes to other arguments, or which lacks the node's backward is refused. Then original
    and candidate are timed in A B B A order: alone, and as two copies of the region's graph, both compiled by Inductor
    with the region's options, of which one does the candidate's ops in the node's place; forward, and with the backward
    where there is one. The saving in the graph is predicted from the times alone, and shown beside the measured one.

    Neither the model nor the session is changed. A candidate of which Dynamo cannot make one graph is timed alone
    only: wrap it in a `torch.library.custom_op`.

    Args:
        node: its name in the tables, as `gelu`; `r0/gelu` where several regions have such a node.
        candidate: a callable that takes the node's arguments.
        tolerance: factor on the usual tolerance of each dtype, for a candidate that computes less exactly; `inf` takes
            any values.
        all_equal: replace all nodes of the region that make the same call from the same source line on tensors alike,
            as those of repeated layers.
        profile: a profile of the same session: predict from the node's part of its kernels' time.
        **options: as for `compare`; of both sides together in each setting.

    Returns:
        A table of settings, each with the raw samples of both sides; print it.

    Raises:
        UsageError: no such node, or several; a candidate that is refused; an unknown option.
        CaptureError: nothing was captured, or the candidate raised.
        IsolationError: an argument of the node cannot be copied.
        SetupError: the instrument for the device is missing.
    """
    check_type("node", node, str)
    check_type("tolerance", tolerance, float)
    check_type("all_equal", all_equal, bool)
    require("measuring", "replacing")
    from graphbench.replacing.replace import replace_node

    return replace_node(
        current_session(),
        node,
        candidate,
        measure_options(options, COMPARE_OPTIONS),
        tolerance=tolerance,
        all_equal=all_equal,
        profile=None if profile is None else profile.record,
    )
