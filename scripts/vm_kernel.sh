#!/bin/sh
# Unpacks Debian's kernel for virtual machines into .vm-kernel, without installing it. tests/vm boots it.
set -eu
cd "$(dirname "$0")/.."
. scripts/machine.sh

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

unpack_kernel() {
    # The package with the lasting name depends on the package with the kernel.
    name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -n 1)
    [ -n "$name" ] || return 1
    (cd "$unpacked" && apt-get download -qq "$name" && dpkg-deb -x ./*.deb .) &&
        mkdir -p .vm-kernel && mv "$unpacked"/boot/vmlinuz-* .vm-kernel/vmlinuz
}

# apt may have no list of packages yet, or an old one.
unpack_kernel || { [ "$(id -u)" = 0 ] && apt-get update -qq && unpack_kernel; } ||
    fail "could not get Debian's kernel linux-image-cloud-amd64: put a kernel of your own at .vm-kernel/vmlinuz"
