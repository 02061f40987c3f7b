#!/bin/sh
# Runs tests and checks: scripts/tiers.py says which.
#
#   sh scripts/test.sh [TIER...] [ARGUMENTS FOR PYTEST...]
#
# Needs Python 3.11, 3.12 or 3.13 with venv, and a C compiler. As root on Debian it installs what is missing; otherwise it
# names the packages. Makes .venv-test-3.* here.
set -eu
cd "$(dirname "$0")/.."
. scripts/machine.sh

python=$(any_python 11 12 13) || {
    install_packages python3 python3-venv
    python=$(any_python 11 12 13) || fail 'none of Python 3.11, 3.12 and 3.13 with venv is on this machine'
}
# Without the cache of bytecode each program under test compiles the package anew.
unset PYTHONDONTWRITEBYTECODE
exec "$python" scripts/tiers.py "$@"
