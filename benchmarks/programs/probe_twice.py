"""``gpu-tracker probe`` that does one piece of its work in the kernel twice: its name, then the options of probe."""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path

from gpu_tracker.cli import options, probe
from gpu_tracker.cuda_probe.engine import engine

_SCRIPTS = Path(__file__).parents[2] / 'scripts'
_DISCARD = '((void (*)(void *, u64))133)'
_AS_MACROS = {
    'stack': 'bpf_probe_read_user(to, size, from)=({ bpf_probe_read_user(to, size, from);'
    ' bpf_probe_read_user(to, size, from); })',
    'lookups': 'bpf_map_lookup_elem(map, key)=({ bpf_map_lookup_elem(map, key); bpf_map_lookup_elem(map, key); })',
    'clock': 'bpf_ktime_get_ns()=({ bpf_ktime_get_ns(); bpf_ktime_get_ns(); })',
    'event': 'bpf_ringbuf_reserve(ring, size, flags)=({ void *room = bpf_ringbuf_reserve(ring, size, flags);'
    f' if (room) {_DISCARD}(room, BPF_RB_NO_WAKEUP); bpf_ringbuf_reserve(ring, size, flags); }})',
}
"""Each calls one of the kernel's functions twice. A macro does not expand itself."""


def _compiled(piece: str) -> bytes:
    sys.path.insert(0, str(_SCRIPTS))
    import compile_probe  # type: ignore[import-not-found]  # noqa: PLC0415 - it is not on the path before

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'object'
        try:
            compile_probe.compile_object(platform.machine(), path, f'-D{_AS_MACROS[piece]}')
        except FileNotFoundError:
            sys.exit('the probe cannot be compiled: clang is missing')
        return path.read_bytes()


contents = _compiled(sys.argv[1])
engine.read_object = lambda: contents  # type: ignore[attr-defined]
given = options.parse(probe.TEXT, sys.argv[2:], 'probe')
if isinstance(given, str):
    sys.exit(given)
sys.exit(probe.run(given))
