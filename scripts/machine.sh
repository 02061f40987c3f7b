# shellcheck shell=sh
# What try.sh and test.sh need to know about the machine. Read with ".", not run.

# say LINE: one line about what happens next, apart from what the tools print.
say() {
    printf '\n== %s\n' "$*" >&2
}

# fail LINE...: the reason, as the last words.
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# usable PYTHON MINOR: prints the path of PYTHON's executable if that is Python 3.MINOR and can make virtual environments.
# It is run to find out: the shims of version managers stand in PATH for versions that they do not have, and Debian's
# Python comes without ensurepip.
usable() {
    "$1" -c "
import ensurepip, sys, venv
assert sys.version_info[:2] == (3, $2)
print(sys.executable)" 2>/dev/null
}

# python_3 MINOR: prints the path of a usable Python 3.MINOR, from PATH or from pyenv; fails without one.
python_3() {
    old_ifs=$IFS
    IFS=:
    # shellcheck disable=SC2086  # PATH is split at its colons
    set -- "$1" $PATH
    IFS=$old_ifs
    minor=$1
    shift
    for folder in "$@" "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}/versions/3.$minor".*/bin; do
        [ -x "$folder/python3.$minor" ] && usable "$folder/python3.$minor" "$minor" && return 0
    done
    return 1
}

# any_python MINOR...: prints the path of the first usable Python of these versions.
any_python() {
    for version in "$@"; do
        python_3 "$version" && return 0
    done
    return 1
}

# install_packages NAME...: installs Debian packages where that is possible, and otherwise names them and fails.
install_packages() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "please install these packages first (Debian's names): $*"
    fi
    say "Installing system packages: $*"
    apt-get update -qq || fail 'apt-get update failed'
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "$@" >/dev/null ||
        fail "could not install these packages: $*"
}

# environment FOLDER PYTHON: makes a fresh virtual environment that knows dependency groups (pip 25.1).
environment() {
    "$2" -m venv --clear "$1" || fail "could not make the virtual environment $1 with $2"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' ||
        fail "could not update pip in $1"
}
