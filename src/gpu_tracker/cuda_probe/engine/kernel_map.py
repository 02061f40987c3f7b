"""One map of the BPF object: keys and values are bytes of fixed sizes."""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine.libbpf import error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_BATCH = 4096
_ANY = 0
_NOEXIST = 1


class KernelMap:
    """A hash map or array of the kernel.

    :param library: libbpf.
    :param handle: The map's descriptor.
    """

    def __init__(self, library: ctypes.CDLL, handle: int, key_size: int, value_size: int) -> None:
        self._library = library
        self._handle = handle
        self._key_size = key_size
        self._value_size = value_size

    def get(self, key: bytes) -> bytes | None:
        """Return the value at ``key``, None where there is none."""
        value = ctypes.create_string_buffer(self._value_size)
        return value.raw if self._library.bpf_map_lookup_elem(self._handle, key, value) == 0 else None

    def put(self, key: bytes, value: bytes, *, only_new: bool = False) -> bool:
        """Set the value at ``key``; return False where ``only_new`` and it has one.

        :raises OSError: E2BIG where the map is full.
        """
        result = self._library.bpf_map_update_elem(self._handle, key, value, _NOEXIST if only_new else _ANY)
        if result == -errno.EEXIST:
            return False
        if result != 0:
            raise error_of(result)
        return True

    def remove(self, key: bytes) -> None:
        """Remove ``key``, where it is there."""
        self._library.bpf_map_delete_elem(self._handle, key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys with their values: many a call, since each call costs as much as a thousand of them."""
        token = ctypes.create_string_buffer(max(self._key_size, 8))
        keys = ctypes.create_string_buffer(_BATCH * self._key_size)
        values = ctypes.create_string_buffer(_BATCH * self._value_size)
        before = None
        while True:
            count = ctypes.c_uint32(_BATCH)
            result = self._library.bpf_map_lookup_batch(
                self._handle, before, token, keys, values, ctypes.byref(count), None
            )
            if result not in {0, -errno.ENOENT}:
                raise error_of(result)
            yield from zip(
                _pieces(keys, count.value, self._key_size), _pieces(values, count.value, self._value_size), strict=True
            )
            if result != 0:
                return
            before = token


def _pieces(buffer: ctypes.Array[ctypes.c_char], count: int, size: int) -> list[bytes]:
    whole = ctypes.string_at(buffer, count * size)
    return [whole[at : at + size] for at in range(0, len(whole), size)]
