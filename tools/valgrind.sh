#!/usr/bin/env bash
# Prints the path of a valgrind that works: the system's, or Debian's package unpacked below the folder that is given.
# Needs no root; says on stderr what is missing.
set -euo pipefail
folder=$1
if command -v valgrind; then
    exit
fi
wrapper=$folder/valgrind
if [[ ! -x $wrapper ]]; then
    echo "valgrind is not installed: unpacking Debian's packages into $folder" >&2
    if ! command -v apt-get dpkg-deb >/dev/null; then
        echo "counting instructions needs valgrind, which this system has to install" >&2
        exit 1
    fi
    mkdir -p "$folder/packages"
    # With the C library's symbols, without which valgrind refuses stripped systems.
    fetch() { (cd "$folder/packages" && apt-get download -q valgrind libc6-dbg >&2); }
    fetch || { [[ $(id -u) = 0 ]] && apt-get update -q >&2 && fetch; } || {
        echo "counting instructions needs valgrind, and apt-get could not download it: install it (apt-get install valgrind)" >&2
        exit 1
    }
    for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
    cat >"$wrapper.new" <<EOF
#!/bin/sh
VALGRIND_LIB='$folder/root/usr/libexec/valgrind' exec '$folder/root/usr/bin/valgrind' --extra-debuginfo-path='$folder/root/usr/lib/debug' "\$@"
EOF
    chmod +x "$wrapper.new" && mv "$wrapper.new" "$wrapper"
fi
echo "$wrapper"
