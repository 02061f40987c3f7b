#!/bin/sh
# Runs all tests and the other checks on the first of Python 3.11, 3.12 and 3.13 that this machine has; on the others the
# unit tests, those of the library's interface, and one pass of each command. Tests that are asked for run on each; those
# in tests/engines, which start jobs with real launchers, and in tests/vm, which boot a kernel, on the first alone, and
# where others are asked for not at all.
#
#   sh scripts/test.sh [ARGUMENTS FOR PYTEST...]
#
# Needs the packages that are named below; on Debian it installs them itself where it is root. Makes .venv-test-3.* here,
# .venv-engines with launchers of jobs, .venv-nvgpu with the program that the agent and the dashboard have to
# understand, .venv-501 with gpu-tracker 5, .venv-cuda with NVIDIA's compiler where the machine has none, and .vm-kernel
# with the kernel that is booted.
set -eu
cd "$(dirname "$0")/.."
. scripts/machine.sh

versions_here() {
    for version in 11 12 13; do
        if python_3 "$version" >/dev/null; then
            printf '%s ' "$version"
        fi
    done
}

# has_library NAME: whether a shared library is where the dynamic loader looks for it.
has_library() {
    for path in "/lib/$1" /lib/*/"$1" "/usr/lib/$1" /usr/lib/*/"$1" "/lib64/$1" "/usr/lib64/$1"; do
        [ -e "$path" ] && return 0
    done
    return 1
}

# has_program NAME...: whether all programs are there; daemons are not always in the PATH of ordinary users.
has_program() {
    for program in "$@"; do
        command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || return 1
    done
}

# The simulated GPU driver is C and is compiled when the tests start. atop is what atopgpud serves, and systemd-analyze
# checks its unit. Chromium, with a font, shows the page of the dashboard, Prometheus reads the agent, and curl and
# openssl are who asks both with and without their secrets. clang compiles what libbpf loads into the kernel, for the
# comparison with what is kept compiled, and g++ what nvcc does not. bpftrace and BCC, which bring little beside clang,
# count the same calls in the benchmark of the CUDA probe. zsh and fish complete the command line, groff reads its
# manual pages, and the other shells run the functions for regions. systemd-nspawn makes a container for claims. Slurm
# and GNU parallel start jobs; moreutils has another program parallel. QEMU boots a kernel; dbus-daemon is the bus of
# systemd's user manager there, and crun makes containers.
missing=
[ -n "$(versions_here)" ] || missing="$missing python3 python3-venv"
echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v atop >/dev/null || missing="$missing atop"
command -v systemd-analyze >/dev/null || missing="$missing systemd"
command -v chromium >/dev/null || missing="$missing chromium fonts-dejavu-core"
command -v promtool >/dev/null || missing="$missing prometheus"
command -v curl >/dev/null || missing="$missing curl"
command -v openssl >/dev/null || missing="$missing openssl"
command -v clang >/dev/null || missing="$missing clang"
command -v g++ >/dev/null || missing="$missing g++"
command -v zsh >/dev/null || missing="$missing zsh"
command -v fish >/dev/null || missing="$missing fish"
has_program ksh93 mksh yash busybox || missing="$missing ksh93u+m mksh yash busybox"
command -v systemd-nspawn >/dev/null || missing="$missing systemd-container"
command -v groff >/dev/null || missing="$missing groff-base"
has_library libbpf.so.1 || missing="$missing libbpf1"
command -v bpftrace >/dev/null || missing="$missing bpftrace"
/usr/bin/python3 -c 'import bcc' 2>/dev/null || missing="$missing python3-bpfcc"
has_program munged slurmctld slurmd srun sbatch ||
    missing="$missing slurm-wlm slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
parallel --version 2>/dev/null | grep -q GNU || missing="$missing parallel"
if [ "$(uname -m)" = x86_64 ]; then
    command -v qemu-system-x86_64 >/dev/null || missing="$missing qemu-system-x86"
    command -v dbus-daemon >/dev/null || missing="$missing dbus-daemon"
    command -v crun >/dev/null || missing="$missing crun"
fi
# shellcheck disable=SC2086  # one word a package
[ -z "$missing" ] || install_packages $missing

versions=$(versions_here)
[ -n "$versions" ] || fail 'none of Python 3.11, 3.12 and 3.13 with venv is on this machine'

# static_checks BIN: what takes long of them runs beside tests that mostly wait.
static_checks() {
    "$1/python" -m mypy || fail 'mypy failed'
    "$1/basedpyright" --project pyproject.toml --pythonpath "$1/python" || fail 'pyright failed'
    for system in darwin win32; do
        "$1/python" -m mypy --config-file "scripts/types_$system.toml" || fail "mypy failed for $system"
    done
    "$1/lint-imports" || fail 'import-linter failed'
    "$1/python" -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html ||
        fail 'the documentation has mistakes'
}

# Browsers, servers and the kernel are the same on each Python: of the tests that are asked for, these run once.
once='browser or server or ebpf or pages'

# These compare figures with the kernel's and run two at a time at most; those of a sampler's own use, and of programs of
# which none may be measured wrongly, one by one. Of the others many only wait for something.
compared='tests/integration/test_truth_*.py'
random='tests/integration/test_truth_random_programs.py'
attacked='tests/integration/test_truth_attacked_'
alone="tests/integration/test_tracker_scale.py $random $attacked*.py"
cores=$(getconf _NPROCESSORS_ONLN)
workers=$((cores + cores / 2))
# Files that are asked for are all that runs, whatever they are, two at a time as some of them may need it.
named=no
for argument in "$@"; do
    case $argument in
    -*) ;;
    *tests/*.py | *tests/*.py::*) named=yes workers=2 ;;
    esac
done

# run_tests PYTHON ARGUMENT...: runs pytest; that some part has no test of those that are asked for is fine.
run_tests() {
    run_waiting "$@" && run_compared "$@"
}

# run_waiting PYTHON ARGUMENT...: runs the tests that others may run beside.
run_waiting() {
    python=$1
    shift
    set -f # for pytest, which reads the patterns
    # shellcheck disable=SC2046,SC2086  # one word a pattern
    "$python" -m pytest --numprocesses="$workers" $(printf ' --ignore-glob=%s' $compared $alone) "$@" ||
        [ $? = 5 ] || return 1
    set +f
}

# run_compared PYTHON ARGUMENT...: runs the tests that compare figures with the kernel's, where no files are asked for.
run_compared() {
    [ "$named" = no ] || return 0
    python=$1
    shift
    # shellcheck disable=SC2086  # one word a file
    "$python" -m pytest --numprocesses=auto --maxprocesses=2 --deselect="$random" --deselect="$attacked" $compared "$@" ||
        [ $? = 5 ] || return 1
    # shellcheck disable=SC2086  # one word a file
    "$python" -m pytest $alone "$@" || [ $? = 5 ]
}

# run_engines ARGUMENT...: runs the tests with real launchers of jobs, those of one file in one process, which starts
# the launchers once.
run_engines() {
    [ $# -gt 0 ] || set -- tests/engines
    PATH="$PWD/.venv-engines/bin:$PATH" .venv-engines/bin/python -m pytest --numprocesses=auto --maxprocesses=2 \
        --dist=loadfile "$@"
}

# run_vm ARGUMENT...: runs the tests in a virtual machine, those of one file in one process, which boots it once.
run_vm() {
    [ $# -gt 0 ] || set -- tests/vm
    "$bin/python" -m pytest --numprocesses=auto --maxprocesses=2 --dist=loadfile "$@"
}

# run_everywhere PYTHON: runs what each Python has to pass: the unit tests, and one pass of each command.
run_everywhere() {
    # shellcheck disable=SC2046  # one word a file
    "$1" -m pytest --numprocesses="$workers" -m 'not integration or every_python' \
        tests/unit $(grep -l 'mark\.every_python' tests/integration/test_*.py)
}

# install VERSION GROUP...: installs gpu-tracker, its extras and what groups name in that version's environment.
install() {
    version=$1
    shift
    # shellcheck disable=SC2046  # two words a group
    "$bin/python" -m pip --python ".venv-test-3.$version/bin/python" install --quiet --disable-pip-version-check \
        '.[cuda,fleet,otel,plot,table]' $(printf ' --group %s' "$@") ||
        fail "could not install gpu-tracker and what its tests need on Python 3.$version"
}

# has_cuda_toolkit: whether the machine has a CUDA toolkit with both programs that the tests need.
has_cuda_toolkit() {
    for program in nvcc cuobjdump; do
        command -v "$program" >/dev/null || [ -x "/usr/local/cuda/bin/$program" ] || return 1
    done
}

# make_cuda: makes the environment with NVIDIA's compiler, where that is needed and there is one.
make_cuda() {
    if has_cuda_toolkit || [ "$(uname -m)" != x86_64 ]; then
        return
    fi
    "$(python_3 "$first")" -m venv --clear --without-pip .venv-cuda ||
        fail 'could not make the virtual environment .venv-cuda'
    "$bin/python" -m pip --python .venv-cuda/bin/python install --quiet --disable-pip-version-check --group cuda ||
        fail "could not install NVIDIA's CUDA compiler"
}

# make_nvgpu: makes the environment with the program that the agent and the dashboard have to understand.
make_nvgpu() {
    "$(python_3 "$first")" -m venv --clear --without-pip .venv-nvgpu ||
        fail 'could not make the virtual environment .venv-nvgpu'
    # Exactly these: later ones do not work together.
    "$bin/python" -m pip --python .venv-nvgpu/bin/python install --quiet --disable-pip-version-check \
        nvgpu==0.9.0 pynvml==11.4.1 setuptools || fail 'could not install nvgpu'
}

# make_kernel: unpacks the kernel that tests/vm boots, Debian's for virtual machines, without installing it.
make_kernel() {
    [ ! -e .vm-kernel/vmlinuz ] || return 0
    # What apt knows may be nothing yet, or of a version that is not there any more.
    unpack_kernel || { [ "$(id -u)" = 0 ] && apt-get update -qq && unpack_kernel; } ||
        fail "could not get Debian's kernel linux-image-cloud-amd64: put a kernel of your own at .vm-kernel/vmlinuz"
}

unpack_kernel() {
    # The package with the lasting name depends on the one with the kernel.
    name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -n 1)
    [ -n "$name" ] || return 1
    unpacked=$(mktemp -d)
    (cd "$unpacked" && apt-get download -qq "$name" && dpkg-deb -x ./*.deb .) || return 1
    mkdir -p .vm-kernel
    mv "$unpacked"/boot/vmlinuz-* .vm-kernel/vmlinuz
    rm -rf "$unpacked"
}

# make_501: makes the environment with the gpu-tracker whose users this one takes over.
make_501() {
    "$(python_3 "$first")" -m venv --clear --without-pip .venv-501 ||
        fail 'could not make the virtual environment .venv-501'
    "$bin/python" -m pip --python .venv-501/bin/python install --quiet --disable-pip-version-check \
        gpu-tracker==5.0.1 || fail 'could not install gpu-tracker 5.0.1'
}

# make_engines: makes the environment with launchers of jobs.
make_engines() {
    "$(python_3 "$first")" -m venv --clear --without-pip .venv-engines ||
        fail 'could not make the virtual environment .venv-engines'
    "$bin/python" -m pip --python .venv-engines/bin/python install --quiet --disable-pip-version-check \
        '.[fleet,table]' --group engines || fail 'could not install the launchers of jobs'
}

# make_others: makes the environments of the other Pythons, with the pip of the first.
make_others() {
    for other in $others; do
        "$(python_3 "$other")" -m venv --clear --without-pip ".venv-test-3.$other" ||
            fail "could not make the virtual environment .venv-test-3.$other"
        install "$other" test
    done
}

# in_background COMMAND...: keeps what it says for shown, so that it does not come between the lines of other checks.
in_background() {
    "$@" >"$said/$1" 2>&1 &
}

# shown NAME JOB: waits for a job in the background, and prints what it has said.
shown() {
    job_status=0
    wait "$2" || job_status=$?
    cat "$said/$1"
    return "$job_status"
}

first=${versions%% *}
others=${versions#* }
with_engines=no with_others=yes with_vm=no
case "$*" in
'')
    with_engines=yes
    [ "$(uname -m)" != x86_64 ] || with_vm=yes
    ;;
*tests/vm*) with_vm=yes with_others=no others= versions=$first ;;
*tests/engines*) with_engines=yes with_others=no others= versions=$first ;;
esac
bin=.venv-test-3.$first/bin
said=$(mktemp -d)
trap 'wait; rm -rf "$said"' EXIT # waits for what goes on in the background, where something fails meanwhile
say "Python 3.$first: $(python_3 "$first")"
environment ".venv-test-3.$first" "$(python_3 "$first")"
in_background make_nvgpu
nvgpu_made=$!
in_background make_cuda
cuda_made=$!
in_background make_501
old_made=$!
if [ "$with_vm" = yes ]; then
    in_background make_kernel
    kernel_made=$!
fi
install "$first" test browser lint types docs
say 'ruff'
"$bin/python" -m ruff check . || fail 'ruff check failed'
"$bin/python" -m ruff format --check . || fail 'ruff format --check failed'
shown make_nvgpu "$nvgpu_made"
shown make_cuda "$cuda_made"
shown make_501 "$old_made"

in_background make_others
others_made=$!
if [ "$with_engines" = yes ]; then
    in_background make_engines
    engines_made=$!
fi
in_background static_checks "$bin"
statically_checked=$!
if [ "$with_others" = yes ]; then
    say "Tests on Python 3.$first: $(python_3 "$first")"
    run_waiting "$bin/python" "$@" || fail "tests failed on Python 3.$first"
fi
shown make_others "$others_made" || fail 'not every Python has an environment'
say 'mypy, pyright, import-linter and the documentation'
shown static_checks "$statically_checked" || fail 'static checks failed'
if [ "$with_others" = yes ] && [ "$named" = no ]; then
    say "Tests on Python 3.$first that compare figures with the kernel's"
    run_compared "$bin/python" "$@" || fail "tests failed on Python 3.$first"
fi
if [ "$with_vm" = yes ]; then
    shown make_kernel "$kernel_made" || fail 'the virtual machine has no kernel'
    say "Tests on Python 3.$first in a virtual machine"
    run_vm "$@" || fail "tests in a virtual machine failed on Python 3.$first"
fi
if [ "$with_engines" = yes ]; then
    shown make_engines "$engines_made" || fail 'the launchers of jobs have no environment'
    say "Tests on Python 3.$first with real launchers of jobs"
    run_engines "$@" || fail "tests with launchers of jobs failed on Python 3.$first"
fi
for version in $others; do
    python=.venv-test-3.$version/bin/python
    say "Tests on Python 3.$version: $(python_3 "$version")"
    if [ $# -gt 0 ]; then
        run_tests "$python" -m "not ($once)" "$@" || fail "tests failed on Python 3.$version"
    else
        run_everywhere "$python" || fail "tests failed on Python 3.$version"
    fi
done

# shellcheck disable=SC2086  # one word a version
say "All checks passed, on Python$(printf ' 3.%s' $versions)"
