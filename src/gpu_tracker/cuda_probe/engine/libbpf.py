"""libbpf through ctypes: the calls in use, with their types; see bpf/libbpf.h and bpf/bpf.h."""

from __future__ import annotations

import ctypes
import os

from gpu_tracker.errors import ProbeUnavailableError

_NAME = 'libbpf.so.1'
_POINTER, _TEXT, _INT, _U32, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t
_FUNCTIONS = {
    'libbpf_set_print': (_POINTER, [_POINTER]),
    'bpf_object__open_mem': (_POINTER, [_POINTER, _SIZE, _POINTER]),
    'bpf_object__load': (_INT, [_POINTER]),
    'bpf_object__close': (None, [_POINTER]),
    'bpf_object__find_program_by_name': (_POINTER, [_POINTER, _TEXT]),
    'bpf_object__find_map_by_name': (_POINTER, [_POINTER, _TEXT]),
    'bpf_program__set_expected_attach_type': (_INT, [_POINTER, _INT]),
    'bpf_program__set_autoload': (_INT, [_POINTER, ctypes.c_bool]),
    'bpf_program__attach': (_POINTER, [_POINTER]),
    'bpf_program__fd': (_INT, [_POINTER]),
    'bpf_link__destroy': (_INT, [_POINTER]),
    'bpf_map__set_max_entries': (_INT, [_POINTER, _U32]),
    'bpf_map__fd': (_INT, [_POINTER]),
    'bpf_map_lookup_elem': (_INT, [_INT, _POINTER, _POINTER]),
    'bpf_map_update_elem': (_INT, [_INT, _POINTER, _POINTER, ctypes.c_uint64]),
    'bpf_map_delete_elem': (_INT, [_INT, _POINTER]),
    'bpf_map_lookup_batch': (
        _INT,
        [_INT, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.POINTER(_U32), _POINTER],
    ),
    'bpf_prog_test_run_opts': (_INT, [_INT, _POINTER]),
}


def open_libbpf() -> ctypes.CDLL:
    """Load the library, its functions typed.

    :raises gpu_tracker.errors.ProbeUnavailableError: It is not there, or older than 1.0.
    """
    try:
        library = ctypes.CDLL(_NAME, use_errno=True)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        raise ProbeUnavailableError(
            f'CUDA calls cannot be probed: the library {_NAME} is missing (Debian and Ubuntu have it in libbpf1, '
            'Fedora in libbpf).'
        ) from None
    library.libbpf_set_print(None)  # what goes wrong is told in our own words
    return library


def error_of(result: int | None) -> OSError:
    """Return the error of a call that has failed, as the C library names it."""
    number = -result if result is not None and result < 0 else ctypes.get_errno()
    return OSError(number, os.strerror(number))
