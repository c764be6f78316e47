"""The part of a script that is the same for every row: builds tensors, sets state, times, prints. Text, no code here.

It follows what measuring does: tensors in storage of their own with the recorded strides and alignment; what a call
writes is put back before the next, untimed; on CUDA the L2 is cleared as it was and device time is the union of what
`torch.profiler` saw the device do; on the CPU it is the wall time of the call.

Source: `torch.profiler.profile.events()`, whose entries have `device_type`, `is_user_annotation` and a `time_range` in
microseconds, torch 2.11 to 2.14; `torch.cuda.get_device_properties(device).L2_cache_size`.
"""

from __future__ import annotations

from typing import Final

HARNESS: Final = '''\
class OnStorage(torch.autograd.Function):
    """A tensor that requires grad, is no leaf and shares its storage: what an op may write in place."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Work:
    """The call and its tensors: `prepare` puts back what the call wrote, `run` makes it."""

    def __init__(self):
        self.specs = list(TENSORS.values())
        generator = torch.Generator().manual_seed(0)
        storages = sorted({spec.storage for spec in self.specs})
        self.blocks = [block([spec for spec in self.specs if spec.storage == one], generator) for one in storages]
        self.call = torch.compile(call, options=OPTIONS) if COMPILED else call
        self.make_tensors()
        self.written = []
        self.backward = self.make_backward() if BACKWARD else None
        if not BACKWARD:
            saved = [entry.clone() for entry in self.blocks]
            layouts = [(entry.shape, entry.stride()) for entry in self.tensors]
            self.result = self.run()
            reshaped = layouts != [(entry.shape, entry.stride()) for entry in self.tensors]
            pairs = zip(self.blocks, saved)
            self.written = [pair for pair in pairs if not torch.equal(*(entry.view(torch.uint8) for entry in pair))]
            self.restores = bool(self.written) or reshaped
        else:
            self.result = self.run()
            self.restores = False
        self.forgets_casts = any(enabled for _, _, enabled in STATE["autocast"])

    def make_tensors(self):
        self.tensors = [tensor(self.blocks[spec.storage], spec) for spec in self.specs]

    def make_backward(self):
        """The gradients of the call's results from random tangents, down to its own arguments."""
        wanted = [entry for entry in self.tensors if entry.requires_grad]
        edges = [torch.autograd.graph.get_gradient_edge(entry) for entry in wanted]
        nodes = [entry.grad_fn for entry in self.tensors]
        results = tensors_of(self.run())
        results += [entry for entry, node in zip(self.tensors, nodes) if entry.grad_fn is not node]
        outputs = list({id(entry): entry for entry in results if entry.grad_fn is not None}.values())
        if not outputs or not edges:
            sys.exit(f"{ROW}: nothing that it returns requires grad, so that it has no backward")
        generator = torch.Generator().manual_seed(1)
        tangents = []
        for output in outputs:
            random = torch.empty_like(output, device="cpu", dtype=torch.float64).normal_(generator=generator)
            tangents.append(random.to(output.device, output.dtype))

        def gradients():
            with contextlib.ExitStack() as stack:
                for kind, _, enabled in STATE["autocast"]:
                    if enabled:
                        stack.enter_context(torch.autocast(kind, enabled=False))
                return torch.autograd.grad(outputs, edges, tangents, retain_graph=True, allow_unused=True)

        return gradients

    def run(self):
        return self.backward() if getattr(self, "backward", None) else self.call(*self.tensors)

    def prepare(self):
        for entry, saved in self.written:
            entry.copy_(saved)
        if self.restores:
            self.make_tensors()
        if self.forgets_casts:
            torch.clear_autocast_cache()


def block(specs, generator):
    """The memory below tensors that share storage, with random values.

    It is filled on the CPU, so that no kernel runs for it on the device.
    """
    count, kind, below = max(map(extent, specs)), getattr(torch, specs[0].dtype), min(spec.below for spec in specs)
    if kind is torch.bool:
        values = torch.randint(0, 2, (count,), generator=generator).bool()
    elif kind.is_floating_point or kind.is_complex:
        wide = torch.complex64 if kind.is_complex else torch.float64 if kind is torch.float64 else torch.float32
        values = torch.rand(count, generator=generator, dtype=wide).mul_(1 - LOWEST).add_(LOWEST).to(kind)
    else:
        values = torch.randint(0, min(below, torch.iinfo(kind).max), (count,), generator=generator).to(kind)
    return values.to(specs[0].device)


def extent(spec):
    """Elements from the start of the storage to the tensor's last one."""
    return spec.offset + (0 if 0 in spec.shape else 1 + sum((n - 1) * step for n, step in zip(spec.shape, spec.stride)))


def tensor(entry, spec):
    made = entry.as_strided(spec.shape, spec.stride, spec.offset)
    if not spec.requires_grad or not STATE["grad"] or STATE["inference"]:
        return made
    made = made.detach().requires_grad_()
    return made if spec.leaf else OnStorage.apply(made)


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [found for entry in result for found in tensors_of(entry)] if isinstance(result, (list, tuple)) else []


def enter_state(stack):
    """Global state as it was when the row was measured."""
    torch.set_num_threads(STATE["num_threads"])
    torch.set_default_dtype(getattr(torch, STATE["default_dtype"]))
    backends = ("cuda", "cudnn") if DEVICE.startswith("cuda") else ("mkldnn",)
    for name, precision in STATE["fp32_precision"]:
        backend = operator.attrgetter(name)(torch.backends)
        if name.startswith(backends) and backend.fp32_precision != precision:
            backend.fp32_precision = precision
    if DEVICE.startswith("cuda"):
        for name, value in STATE["flags"]:
            owner, _, attribute = name.rpartition(".")
            setattr(operator.attrgetter(owner)(torch.backends), attribute, value)
        for name, enabled in STATE["sdpa"]:
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled)
    deterministic, warn_only = STATE["deterministic"]
    torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    stack.enter_context(torch.inference_mode(STATE["inference"]))
    stack.enter_context(torch.set_grad_enabled(STATE["grad"]))
    for kind, dtype, enabled in STATE["autocast"]:
        dtype = dtype and getattr(torch, dtype)
        cached = STATE["autocast_cache"]
        stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cached))


def wall_times(work, inner):
    """Wall time of a call on the CPU, in nanoseconds per call; `inner` calls make a sample."""
    inner = 1 if work.restores or work.forgets_casts else inner

    def sample():
        work.prepare()
        start = time.perf_counter_ns()
        for _ in range(inner):
            result = work.run()
        spent = time.perf_counter_ns() - start
        del result
        return spent / inner

    repeat(sample, WARMUP_MS, 3, 10_000)
    return repeat(sample, MEASURE_MS, *SAMPLES)


def repeat(sample, budget_ms, least, most):
    found, end = [], time.perf_counter_ns() + budget_ms * 1e6
    while len(found) < least or (len(found) < most and time.perf_counter_ns() < end):
        found.append(sample())
    return found


def device_times(work):
    """Device time of a call on CUDA, in nanoseconds, and the names of its kernels."""
    flush = make_flush()

    def before():
        work.prepare()
        flush()

    for _ in range(10):
        before()
        work.run()
    device_events(before, 1)  # the first session pays for what all sessions share
    n_before, n_samples = len(device_events(before, 1)), min(50, SAMPLES[1])
    events = device_events(lambda: (before(), work.run()), n_samples)
    n_each, rest = divmod(len(events), n_samples)
    if rest or n_each < n_before:
        sys.exit(f"{ROW}: {len(events)} kernels and copies in {n_samples} calls: not the same in every call")
    times = []
    for index in range(n_samples):
        own = events[index * n_each + n_before : (index + 1) * n_each]
        times.append(1e3 * sum(end - start for start, end in joined((start, end) for start, end, _ in own)))
    return times, [name for _, _, name in own]


def device_events(run, count):
    """What the device did while `run` was called `count` times: `(start, end, name)` in microseconds, by start."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(count):
            run()
            torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    events = [event for event in profiler.events() if event.device_type == cuda and not event.is_user_annotation]
    return sorted((event.time_range.start, event.time_range.end, event.name) for event in events)


def joined(intervals):
    found = []
    for start, end in intervals:
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def make_flush():
    """Clears the device's L2 as it was when the row was measured."""
    if MEASURED["cache"] not in ("cold-read", "cold-write"):
        return lambda: None
    nbytes = 2 * torch.cuda.get_device_properties(DEVICE).L2_cache_size
    buffer = torch.zeros(nbytes // 4, dtype=torch.float32, device=DEVICE)
    total = torch.zeros((), dtype=torch.float32, device=DEVICE)

    def flush():
        with torch.no_grad():
            if MEASURED["cache"] == "cold-read":
                torch.sum(buffer, dim=0, out=total)
            else:
                buffer.zero_()

    return flush


def main():
    with contextlib.ExitStack() as stack:
        if DEVICE.startswith("cuda"):
            stack.enter_context(torch.cuda.device(DEVICE))
        enter_state(stack)
        work = Work()
        gc.disable()
        if "--once" in sys.argv[1:]:
            once(work)
            return
        kernels = []
        if DEVICE.startswith("cuda"):
            times, kernels = device_times(work)
        else:
            times = wall_times(work, MEASURED["inner"])
        report(work, times, kernels)


def once(work):
    """One call between the marks that ncu's --profile-from-start off waits for, after two to warm up."""
    if not DEVICE.startswith("cuda"):
        sys.exit(f"{ROW}: --once is for ncu, which profiles CUDA devices")
    for _ in range(2):
        work.prepare()
        work.run()
    work.prepare()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    work.run()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def report(work, times, kernels):
    median, measured = statistics.median(times), MEASURED["median_ns"]
    what = "device time by torch.profiler" if DEVICE.startswith("cuda") else "wall time"
    print(f"row        {ROW}")
    print(f"this run   {median / 1e3:.2f} us, median of {len(times)} samples, {what}, torch {torch.__version__}")
    if measured is None:
        print(f"profile    no time: {MEASURED['reason']}")
    else:
        rest = f"{MEASURED['timer']}, {MEASURED['cache']}, torch {MEASURED['torch']}, {MEASURED['hardware']}"
        print(f"profile    {measured / 1e3:.2f} us, median of {MEASURED['samples']} samples, {rest}")
        if measured:
            print(f"ratio      {median / measured:.3f}")
    for position, output in enumerate([] if BACKWARD else tensors_of(work.result)):
        shown = (str(output.dtype).removeprefix("torch."), tuple(output.shape), tuple(output.stride()))
        expected = MEASURED["outputs"][position] if position < len(MEASURED["outputs"]) else None
        same = "as in the profile" if shown == expected else f"in the profile {expected}"
        print(f"output {position}   {shown} {same if expected else ''}")
    for name in kernels:
        print(f"kernel     {name}")


if __name__ == "__main__":
    main()
'''
