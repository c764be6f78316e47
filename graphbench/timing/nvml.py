"""The only reader of NVML: the clocks of one GPU, what holds them down, and locking them. No torch import.

Source: module `pynvml` of the distribution nvidia-ml-py, checked on 13.615.71.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from graphbench.device_records import ClockState
from graphbench.errors import SetupError

MILLIWATTS_PER_WATT: Final = 1000

_UUID_PREFIXES: Final = ("GPU-", "MIG-")
_REASON_QUERIES: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The newer name, and the one that drivers before 535 know."""
_NO_THROTTLING: Final = 0x1 | 0x2
"""Bits of the idle reason and of clocks that somebody set: nothing holds these down against the user's will."""
_REASONS: Final = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability",
}
"""`nvmlClocksEventReason*` and `nvmlClocksThrottleReason*`, bit by bit."""


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Names of the reasons set in NVML's bit mask that lower a clock; an unknown bit is named by its value."""
    bits = [1 << i for i in range(mask.bit_length()) if mask & ~_NO_THROTTLING & 1 << i]
    return tuple(_REASONS.get(bit, f"unknown reason {bit:#x}") for bit in bits)


class Nvml:
    """One GPU as NVML sees it. A slice of a GPU (MIG) stands for the whole GPU: clocks are the whole GPU's.

    NVML stays initialised: it counts its users, and torch may be one of them.

    Args:
        uuid: of the device, with or without NVML's prefix `GPU-` or `MIG-`. An index would not do:
            CUDA_VISIBLE_DEVICES renumbers devices for CUDA, not for NVML.

    Raises:
        SetupError: the binding is missing, NVML does not start, or it knows no such device.
    """

    def __init__(self, uuid: str) -> None:
        self._nvml = _binding()
        self._handle, self.uuid = self._find(uuid.removeprefix("GPU-").removeprefix("MIG-"))

    def _find(self, uuid: str) -> tuple[Any, str]:
        nvml = self._nvml
        refusals = []
        for prefix in _UUID_PREFIXES:
            try:
                handle = nvml.nvmlDeviceGetHandleByUUID(prefix + uuid)
                if prefix == "MIG-":
                    handle = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
                return handle, str(nvml.nvmlDeviceGetUUID(handle))
            except nvml.NVMLError as error:
                refusals.append(f"{prefix}{uuid}: {error}")
        raise SetupError(
            f"NVML knows no such GPU ({'; '.join(refusals)})",
            hint="compare with `nvidia-smi -L`: inside a container NVML may see other devices than CUDA",
            subject=uuid,
        )

    def clock_state(self) -> ClockState:
        """Clocks, temperature, power and throttle reasons now; `None` for what the device does not tell.

        A query costs 2 to 3 µs, the first of each kind milliseconds (H200).
        """
        nvml = self._nvml
        milliwatts = self._query("nvmlDeviceGetPowerUsage")
        sm_mhz = self.sm_mhz()
        # Drivers name reasons also while the clock stands at its highest: nothing is held down then.
        highest = sm_mhz is not None and self.max_sm_mhz is not None and sm_mhz >= self.max_sm_mhz
        return ClockState(
            sm_mhz=sm_mhz,
            memory_mhz=self._query("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            temperature_c=self._query("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_w=None if milliwatts is None else milliwatts / MILLIWATTS_PER_WATT,
            throttle=() if highest else self._throttle(),
        )

    def sm_mhz(self) -> int | None:
        """The SM clock now."""
        return self._whole_number("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)

    def persistence_mode(self) -> bool | None:
        """Whether the driver keeps the GPU initialised when nobody uses it."""
        enabled = self._query("nvmlDeviceGetPersistenceMode")
        return None if enabled is None else bool(enabled)

    @cached_property
    def mig_mode(self) -> bool | None:
        """Whether the GPU is cut into slices now; `None` on GPUs that cannot be."""
        modes = self._query("nvmlDeviceGetMigMode")
        return None if modes is None else bool(modes[0])

    @cached_property
    def max_sm_mhz(self) -> int | None:
        """The highest SM clock of the device."""
        return self._whole_number("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM)

    @cached_property
    def supported_sm_mhz(self) -> tuple[int, ...]:
        """SM clocks that can be locked at the highest memory clock, rising; empty when the device does not tell."""
        memory_mhz = self._query("nvmlDeviceGetSupportedMemoryClocks")
        if not memory_mhz:
            return ()
        return tuple(sorted(self._query("nvmlDeviceGetSupportedGraphicsClocks", max(memory_mhz)) or ()))

    def lock_sm_clock(self, mhz: int) -> None:
        """Hold the SM clock at `mhz`, for every process on the GPU, until it is reset.

        Raises:
            SetupError: not permitted, or the device cannot.
        """
        self._change("lock the SM clock", "nvmlDeviceSetGpuLockedClocks", mhz, mhz)

    def reset_sm_clock(self) -> None:
        """Let the SM clock go, whoever locked it: NVML cannot tell what lock was there before.

        Raises:
            SetupError: not permitted, or the device cannot.
        """
        self._change("reset the SM clock", "nvmlDeviceResetGpuLockedClocks")

    def _throttle(self) -> tuple[str, ...]:
        for query in _REASON_QUERIES:
            mask = self._query(query)
            if mask is not None:
                return throttle_reasons(mask)
        return ()

    def _whole_number(self, query: str, *arguments: int) -> int | None:
        found = self._query(query, *arguments)
        return None if found is None else int(found)

    def _query(self, query: str, *arguments: int) -> Any:
        """What the device answers; `None` when binding, driver or device do not know the question."""
        ask = getattr(self._nvml, query, None)
        if ask is None:
            return None
        try:
            return ask(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None

    def _change(self, what: str, call: str, *arguments: int) -> None:
        nvml = self._nvml
        try:
            getattr(nvml, call)(self._handle, *arguments)
        except nvml.NVMLError as error:
            message = f"cannot {what} of {self.uuid}: NVML says {str(error)!r}"
            if error.value == nvml.NVML_ERROR_NO_PERMISSION:
                raise SetupError(
                    message,
                    hint="clocks are root's to change: run with sudo, or measure without locking them",
                    subject=self.uuid,
                ) from error
            raise SetupError(message, hint="measure without locking the clock", subject=self.uuid) from error


def _binding() -> Any:
    """The module `pynvml`, initialised.

    Raises:
        SetupError: it is not installed, or NVML does not start.
    """
    try:
        import pynvml
    except ImportError as error:
        raise SetupError(
            "GPU clocks are read through NVML, and its binding `pynvml` is not installed",
            hint="pip install nvidia-ml-py",
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SetupError(f"NVML does not start: {error}", hint="check that `nvidia-smi` works here") from error
    return pynvml
