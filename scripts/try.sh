#!/bin/sh
# Installs gpu-tracker from this checkout into .venv-try and tracks an example program with it.
#
#   sh scripts/try.sh [WHEEL]
#
# With the path of a wheel, that is installed in place of the checkout.
# Needs Python 3.11 or newer with venv; on Debian it installs python3 and python3-venv itself where it is root.
set -eu
package=.
[ $# = 0 ] || package=$(realpath "$1")
cd "$(dirname "$0")/.."
. scripts/machine.sh

python=$(any_python 11 12 13 14) || {
    install_packages python3 python3-venv
    python=$(any_python 11 12 13 14) || fail 'Python 3.11 or newer with venv is needed, and the packages of this system have none'
}

say "Installing gpu-tracker from $package into .venv-try, with $python"
environment .venv-try "$python"
.venv-try/bin/python -m pip install --quiet --disable-pip-version-check "$package" || fail 'could not install gpu-tracker'

say 'Running: gpu-tracker --interval=0.1 python examples/sort_in_parallel.py'
PATH="$PWD/.venv-try/bin:$PATH"
export PATH
gpu-tracker --interval=0.1 python examples/sort_in_parallel.py

say 'Done. To use it in this shell: . .venv-try/bin/activate'
