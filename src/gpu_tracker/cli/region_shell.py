"""The shell functions printed by ``gpu-tracker region --shell``: steps without a process of their own.

Each line of the log is one ``printf``. The ID of the process comes from the kernel, because ``$$`` is the same in all
subshells; the time comes from the shell where it has one in microseconds, else from ``/proc/uptime``. What lies between
these clocks and the monotonic one is computed here, once, so that equal moments get equal times.
"""

from __future__ import annotations

import time

_FUNCTIONS = r"""# Steps of a shell script, for gpu-tracker. To be read by: eval "$(gpu-tracker region --shell)"
#   gput_region NAME COMMAND [ARGUMENT...]    run a command or a function as a step
#   gput_region_begin NAME ... gput_region_end [STATUS]    the lines between are a step
_gput_i='@TAB@' _gput_nl='
' _gput_cr='@CR@'
_gput_stack= _gput_n_pid= _gput_n=0 _gput_high=0 _gput_clock=uptime _gput_bits=64
if [ -n "${ZSH_VERSION-}" ]; then
  if zmodload zsh/datetime 2>/dev/null; then _gput_clock=variable; fi
elif [ -n "${BASH_VERSION-}" ]; then
  if [ -n "${EPOCHREALTIME-}" ]; then _gput_clock=variable; fi
else
  case ${KSH_VERSION-} in
  *'MIRBSD KSH'*) _gput_clock=variable _gput_bits=32 ;;
  *'LEGACY KSH'*) _gput_clock=variable ;;
  *'AJM 93'*) _gput_clock=printf ;;
  esac
fi
case $_gput_clock in
variable)
  _gput_behind_s=@UNIX_S@ _gput_behind_us=@UNIX_US@
  _gput_read_clock() { _gput_t=$EPOCHREALTIME; }
  ;;
printf)
  _gput_behind_s=@UNIX_S@ _gput_behind_us=@UNIX_US@
  eval '_gput_read_clock() { _gput_t=${ LC_ALL=C printf "%(%s.%N)T" now; }; }'
  ;;
*)
  _gput_behind_s=@BOOT_S@ _gput_behind_us=@BOOT_US@
  _gput_read_clock() { IFS=' ' read -r _gput_t _gput_rest </proc/uptime; }
  ;;
esac

# Set _gput_s and _gput_us, the time in seconds and in six digits after the point.
_gput_now() {
  _gput_read_clock || return 1
  _gput_s=${_gput_t%%[.,]*}
  _gput_us=${_gput_t#*[.,]}000000
  _gput_us=${_gput_us%"${_gput_us#??????}"}
  _gput_us=$((1$_gput_us - 1000000 - _gput_behind_us)) _gput_s=$((_gput_s - _gput_behind_s))
  if [ "$_gput_us" -lt 0 ]; then
    _gput_us=$((_gput_us + 1000000)) _gput_s=$((_gput_s - 1))
  fi
  _gput_us=$((1000000 + _gput_us))
  _gput_us=${_gput_us#1}
}

# Set _gput_pid.
_gput_process() {
  { IFS=' ' read -r _gput_pid _gput_stat </proc/self/stat; } 2>/dev/null || return 1
}

# Set _gput_id, a number that no other step has: the process, and the time where it is exact, else a counter.
_gput_number() {
  _gput_low=$((1$_gput_us - 1000000))
  if [ "$_gput_clock" = uptime ] && [ "$_gput_n_pid" != "$_gput_pid" ]; then
    # The time is coarse: the count of page faults differs before and after an exec.
    _gput_stat=${_gput_stat##*') '}
    _gput_stat=${_gput_stat#* * * * * * * }
    _gput_low=$((_gput_low + ${_gput_stat%% *} % 10000 * 97 % 10000))
  fi
  _gput_sec=$((_gput_s % 1000000 + _gput_low / 1000000)) _gput_low=$((_gput_low % 1000000))
  if [ "$_gput_n_pid" = "$_gput_pid" ]; then
    if [ "$_gput_sec" -lt "$_gput_high" ] ||
      { [ "$_gput_sec" -eq "$_gput_high" ] && [ "$_gput_low" -le "$_gput_n" ]; }; then
      _gput_low=$((_gput_n + 1)) _gput_sec=$_gput_high
    fi
  fi
  _gput_n_pid=$_gput_pid _gput_high=$_gput_sec _gput_n=$_gput_low
  if [ "$_gput_bits" = 64 ]; then
    _gput_id=$((_gput_pid * 2199023255552 + _gput_sec * 1000000 + _gput_low))
  else
    _gput_sec=$((1000000 + _gput_sec % 1000000)) _gput_low=$((1000000 + _gput_low % 1000000))
    _gput_id=$_gput_pid${_gput_sec#1}${_gput_low#1}
  fi
}

# Set _gput_text to $1, with escapes in place of what a line cannot hold.
_gput_escape() {
  _gput_text=$1
  case $1 in *'\'* | *"$_gput_i"* | *"$_gput_nl"* | *"$_gput_cr"*) ;; *) return 0 ;; esac
  _gput_left=$1 _gput_text=
  while [ -n "$_gput_left" ]; do
    _gput_part=${_gput_left%"${_gput_left#?}"}
    _gput_left=${_gput_left#?}
    case $_gput_part in
    '\') _gput_part='\\' ;;
    "$_gput_i") _gput_part='\t' ;;
    "$_gput_nl") _gput_part='\n' ;;
    "$_gput_cr") _gput_part='\r' ;;
    esac
    _gput_text=$_gput_text$_gput_part
  done
}

# Append a line to each log: $1, at most 3500 of $2, $3.
if [ "$_gput_bits" = 32 ] || [ -n "${KSH_VERSION-}" ]; then
  _gput_print() { print -r -- "$1$2$3"; }
else
  _gput_print() { printf '%s%.3500s%s\n' "$1" "$2" "$3"; }
fi
_gput_write() {
  _gput_logs=$GPU_TRACKER_REGIONS:
  while [ -n "$_gput_logs" ]; do
    _gput_log=${_gput_logs%%:*} _gput_logs=${_gput_logs#*:}
    if [ -f "$_gput_log" ] && [ -w "$_gput_log" ]; then
      { _gput_print "$1" "$2" "$3" >>"$_gput_log"; } 2>/dev/null || :
    fi
  done
}

gput_region_begin() {
  if [ -z "${GPU_TRACKER_REGIONS-}" ]; then return 0; fi
  GPU_TRACKER_REGION=${GPU_TRACKER_REGION-}
  export GPU_TRACKER_REGION # ksh93 makes a process of a subshell here, and has another ID from then on
  _gput_escape "${1-}"
  { _gput_now && _gput_process; } || return 0
  _gput_number
  case ${GPU_TRACKER_REGION-} in '' | *[!0-9]*) _gput_outer= ;; *) _gput_outer=$GPU_TRACKER_REGION ;; esac
  _gput_t=$_gput_s${_gput_us}000
  _gput_who=${_gput_outer:--}$_gput_i$_gput_pid$_gput_i$_gput_pid$_gput_i-
  _gput_write "B$_gput_i$_gput_id$_gput_i$_gput_who$_gput_i$_gput_t$_gput_i-$_gput_i-$_gput_i" "$_gput_text" "$_gput_i-"
  _gput_stack="$_gput_pid:$_gput_id:$_gput_outer $_gput_stack"
  GPU_TRACKER_REGION=$_gput_id
}

gput_region_end() {
  if [ -z "$_gput_stack" ]; then return 0; fi
  _gput_now || :
  _gput_process || _gput_pid=
  case ${1-0} in 0) _gput_error=- ;; *) _gput_error="exit status $1" ;; esac
  _gput_top=${_gput_stack%% *} _gput_stack=${_gput_stack#* }
  _gput_outer=${_gput_top##*:}
  if [ "${_gput_top%%:*}" = "$_gput_pid" ] && [ -n "${GPU_TRACKER_REGIONS-}" ]; then
    _gput_top=${_gput_top%:*}
    _gput_t=$_gput_s${_gput_us}000
    _gput_write "E$_gput_i${_gput_top#*:}$_gput_i$_gput_t$_gput_i-$_gput_i-$_gput_i" "$_gput_error" ''
  fi
  if [ -n "$_gput_outer" ]; then GPU_TRACKER_REGION=$_gput_outer; else unset GPU_TRACKER_REGION; fi
}

# End the steps that are open, down to the one with the stack $1 below it.
_gput_end_down_to() {
  while [ -n "$_gput_stack" ] && [ "$_gput_stack" != "$1" ]; do gput_region_end "$2"; done
}

# Whether $1 is a function, as far as the shell says: one without typeset takes its own commands for functions as well.
if [ -n "${BASH_VERSION-}${ZSH_VERSION-}${KSH_VERSION-}" ]; then
  _gput_is_function() { typeset -f "$1" >/dev/null 2>&1; }
else
  _gput_is_function() { PATH= command -v -- "$1" >/dev/null 2>&1 && case $1 in */*) false ;; esac; }
fi

# With set -e a program's failure is awaited, so that its end is written before the script ends; a function runs as it
# would without this, because a condition around it would switch set -e off in it: its end is written by the trap.
gput_region() {
  if [ "$#" -lt 2 ]; then
    printf '%s\n' 'gput_region: give a name and a command' >&2
    return 2
  fi
  if [ -z "${GPU_TRACKER_REGIONS-}" ]; then
    shift
    "$@"
    return
  fi
  gput_region_begin "$1"
  shift
  case $- in
  *e*)
    if _gput_is_function "$1"; then
      "$@"
      _gput_status=$?
    else
      _gput_status=0
      "$@" || _gput_status=$?
    fi
    ;;
  *)
    "$@"
    _gput_status=$?
    ;;
  esac
  gput_region_end "$_gput_status"
  return "$_gput_status"
}

_gput_at_exit() {
  if [ "$1" != 0 ]; then _gput_end_down_to '' "$1"; fi
}
case $(trap) in
*EXIT*) ;;
*) trap '_gput_at_exit "$?"' EXIT ;;
esac
"""


def functions() -> str:
    """Return the functions, with the current offsets between this machine's clocks."""
    monotonic = time.monotonic_ns() // 1000
    since_1970 = time.time_ns() // 1000 - monotonic
    since_boot = _since_boot() - time.monotonic_ns() // 1000
    text = _FUNCTIONS
    for name, value in {
        'TAB': '\t',
        'CR': '\r',
        'UNIX_S': str(since_1970 // 1_000_000),
        'UNIX_US': str(since_1970 % 1_000_000),
        'BOOT_S': str(since_boot // 1_000_000),
        'BOOT_US': str(since_boot % 1_000_000),
    }.items():
        text = text.replace(f'@{name}@', value)
    return text


def _since_boot() -> int:
    """Return the microseconds of the clock that ``/proc/uptime`` shows."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
