"""The figures of one GPU that sysfs has: memory, utilization, temperature, clock, power and energy.

``gpu_busy_percent``, ``mem_info_vram_used`` and the like are amdgpu's (Documentation/gpu/amdgpu/); the sensors are
those of hwmon (Documentation/hwmon/sysfs-interface.rst): millidegrees, microwatts, microjoules, hertz.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.gpus.drm.devices import Device

_MOST_BYTES = 64
_MICRO = 1e6
_MILLI = 1e3
_MEGA = 1_000_000

_CLOCKS = ('gt_act_freq_mhz',)
"""In the folder of the card: i915."""
_XE_CLOCK = 'tile0/gt0/freq0/act_freq'


class Sensors:
    """Reads the files of a GPU.

    A GPU that sleeps is not waked: its drivers would do so to read a sensor, and then it would use power all the time.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._absent: set[str] = set()
        """Files that this driver has not, or that are root's."""

    def memory(self) -> tuple[int | None, int | None]:
        """Return the bytes that the GPU has, and those in use; of an integrated one with what it may use of RAM.

        i915, nouveau and the like report neither to those who are not root; xe reports what there is.
        """
        path = self._device.path
        total, used = self._number(f'{path}/mem_info_vram_total'), self._number(f'{path}/mem_info_vram_used')
        if self._device.is_integrated:
            total = _both(total, self._number(f'{path}/mem_info_gtt_total'))
            used = _both(used, self._number(f'{path}/mem_info_gtt_used'))
        if total is None:
            total = _sum(self._number(file) for file in self._device.memory_files)
        return total or None, used

    def utilization(self) -> float | None:
        """Return the percent that the driver reports of now; None where it reports none."""
        if self.is_asleep:
            return 0.0 if os.path.exists(f'{self._device.path}/gpu_busy_percent') else None
        return _float(self._number(f'{self._device.path}/gpu_busy_percent'))

    def memory_utilization(self) -> int | None:
        """Return the percent of the time in which memory is read or written."""
        return None if self.is_asleep else self._number(f'{self._device.path}/mem_busy_percent')

    @property
    def is_asleep(self) -> bool:
        """Whether the GPU is switched off as long as nobody uses it, as that of a laptop may be."""
        return self._read(f'{self._device.path}/power/runtime_status').strip() == b'suspended'

    def temperature(self) -> float | None:
        """Return degrees Celsius: of the first sensor; xe has none of that number, and the second is the package's."""
        first = self._first('temp1_input', 'temp2_input')
        return None if first is None else first / _MILLI

    def power(self) -> float | None:
        """Return watts; a driver has either the mean of the last moments or the latest figure."""
        power = self._first('power1_average', 'power1_input')
        return None if power is None else power / _MICRO

    def power_limit(self) -> float | None:
        """Return watts; 0 is no limit."""
        limit = self._first('power1_cap', 'power1_max')
        return limit / _MICRO if limit else None

    def clock(self) -> int | None:
        """Return hertz."""
        if self.is_asleep:
            return None
        hertz = self._first('freq1_input')
        if hertz is not None:
            return hertz
        card, path = self._device.card, self._device.path
        names = [f'{path}/{_XE_CLOCK}', *(f'{card}/{name}' for name in _CLOCKS if card is not None)]
        megahertz = next((found for name in names if (found := self._number(name)) is not None), None)
        return None if megahertz is None else megahertz * _MEGA

    def energy(self) -> float | None:
        """Return the joules that the whole GPU has used since its driver was loaded."""
        energy = self._first('energy1_input')
        return None if energy is None else energy / _MICRO

    def _first(self, *names: str) -> int | None:
        """Return the figure of the first sensor that there is."""
        if self._device.hwmon is None or self.is_asleep:
            return None
        found = (self._number(f'{self._device.hwmon}/{name}') for name in names)
        return next((figure for figure in found if figure is not None), None)

    def _number(self, path: str) -> int | None:
        text = self._read(path)
        try:
            return int(text)
        except ValueError:  # missing, or not known now: the driver answers EBUSY or EPERM in a reset
            return None

    def _read(self, path: str) -> bytes:
        if path in self._absent:
            return b''
        try:
            with open(path, 'rb', buffering=0) as file:
                return file.read(_MOST_BYTES) or b''
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self._absent.add(path)
            return b''
        except OSError:
            return b''


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes, None where one is unknown or there is none."""
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None) or None


def _both(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _float(number: int | None) -> float | None:
    return None if number is None else float(number)
