#!/bin/sh
# Builds the wheel and the sdist of this checkout into a folder, with a software bill of materials, and checks them.
#
#   sh scripts/build.sh [FOLDER]
#
# The folder, by default dist/, must have neither yet. Both are built twice, the second time from the first sdist, unpacked
# elsewhere, with other permissions and in another time zone, and have to be the same to the byte. Then they are checked
# with twine and check-wheel-contents, compared with what git tracks, and the wheel is installed: scripts/check_release.py
# says what it may take. Needs Python 3.11, 3.12 or 3.13 with venv; where
# there is no git, nobody notices what is missing in the archives. Makes .venv-release here.
set -eu
cd "$(dirname "$0")/.."
. scripts/machine.sh

dist=${1:-dist}
mkdir -p "$dist"
dist=$(realpath "$dist")
[ -z "$(find "$dist" -name 'gpu_tracker-*')" ] || fail "$dist has a build already"
python=$(any_python 11 12 13) || fail 'none of Python 3.11, 3.12 and 3.13 with venv is on this machine'
say "Building into $dist, with $python"
environment .venv-release "$python"
bin=$PWD/.venv-release/bin
"$bin/python" -m pip install --quiet --disable-pip-version-check --group release ||
    fail 'could not install what builds and checks a release'
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT

# The time in both archives: that of the last change, or where there is no git, hatchling's own.
if [ -e .git ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
fi
"$bin/python" -m build --no-isolation --outdir "$dist" . >"$elsewhere/said" 2>&1 || {
    cat "$elsewhere/said"
    fail 'the build failed'
}
(
    umask 077
    mkdir "$elsewhere/source"
    tar -xzf "$dist"/gpu_tracker-*.tar.gz -C "$elsewhere/source" --strip-components=1
    TZ=Asia/Tokyo "$bin/python" -m build --no-isolation --outdir "$elsewhere/again" "$elsewhere/source"
) >"$elsewhere/said" 2>&1 || fail 'the sdist cannot be built'
for file in "$dist"/gpu_tracker-*; do
    cmp "$file" "$elsewhere/again/$(basename "$file")" || fail "$(basename "$file") is not reproducible"
done

"$bin/twine" check --strict "$dist"/gpu_tracker-* || fail 'twine check failed'
"$bin/check-wheel-contents" "$dist"/gpu_tracker-*.whl || fail 'check-wheel-contents failed'
"$bin/python" scripts/check_release.py contents "$dist" || fail 'wheel and sdist are not what they should be'

# What is installed is known by its name and version alone, without the path of this machine.
"$python" -m venv --without-pip "$elsewhere/installed"
"$bin/python" -m pip --python "$elsewhere/installed/bin/python" install --quiet --disable-pip-version-check \
    "$dist"/gpu_tracker-*.whl || fail 'the wheel cannot be installed'
"$bin/python" scripts/check_release.py budget "$dist"/gpu_tracker-*.whl "$elsewhere/installed/bin/python" ||
    fail 'the wheel takes too much'
for bill in "$dist/gpu_tracker.cdx.json" "$elsewhere/again.cdx.json"; do
    "$bin/cyclonedx-py" environment "$elsewhere/installed" --pyproject pyproject.toml --output-reproducible \
        --output-format JSON --output-file "$bill"
    "$bin/python" scripts/check_release.py sbom "$bill"
done
cmp "$dist/gpu_tracker.cdx.json" "$elsewhere/again.cdx.json" || fail 'the bill of materials is not reproducible'
"$bin/python" - "$dist/gpu_tracker.cdx.json" <<'CHECK' || fail 'the bill of materials is not valid'
import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = pathlib.Path(sys.argv[1]).read_text()
assert '"/' not in text and 'file:' not in text, 'a path of this machine is in it'
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(text))
CHECK
say "Built: $(cd "$dist" && echo gpu_tracker*)"
