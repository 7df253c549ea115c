#!/usr/bin/env bash
# Runs what docs/emulator.md shows: builds the emulator alone, takes the two files out of the page, and holds the page to
# what they print, right and broken. Where an aarch64 compiler is installed the same is built for that machine, and run
# where qemu-aarch64 is.
#
#   tests/emu/docs_example.sh            CC names another compiler
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
page=$root/docs/emulator.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# take FILE: the code block that opens with "// FILE:".
take() {
    awk -v name="// $1:" '/^```/ { inside = 0 } inside || index($0, name) == 1 { inside = 1; print }' "$page" >"$2/$1"
    [ -s "$2/$1" ] || { echo "docs_example: no block of $1 in docs/emulator.md"; exit 1; }
}

# build COMPILER FOLDER [cmake arguments]: libemu.a and run_scale of what lies in FOLDER.
build_emu() {
    cmake -S "$root/emu" -B "$2" -DCMAKE_C_COMPILER="$1" "${@:3}" >"$folder/log" 2>&1 &&
        cmake --build "$2" -j "$(nproc)" >>"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
}
build_example() {
    (cd "$3" && "$1" -std=c11 -Wall -Wextra -I"$root" -I"$root/emu" run_scale.c "$2/libemu.a" -lm -o run_scale)
}

words() { tr -s ' \n' '  '; }

# holds WHAT: every line of what a program printed stands in the page, however either breaks its lines.
holds() {
    local line
    while IFS= read -r line; do
        line=$(words <<<"$line" | sed 's/^ *//; s/ *$//')
        [ -z "$line" ] || words <"$page" | grep -qF -- "$line" || { echo "docs_example: $1: not in the page: $line"; exit 1; }
    done
}

# broken NAME SED: the kernel with one mistake must fail, in the page's words. Of a deadlock the page shows some lines.
broken() {
    local there=$folder/$1
    mkdir "$there"
    take run_scale.c "$there"
    sed "$2" "$folder/scale.c" >"$there/scale.c"
    ! cmp -s "$folder/scale.c" "$there/scale.c" || { echo "docs_example: $1 changes nothing"; exit 1; }
    build_example "${CC:-cc}" "$folder/emu" "$there"
    if (cd "$there" && ./run_scale) >"$there/out"; then
        echo "docs_example: $1: nothing was reported"
        exit 1
    fi
    grep -vE 'scale warp [123],' "$there/out" | holds "$1"
}

take scale.c "$folder"
take run_scale.c "$folder"
build_emu "${CC:-cc}" "$folder/emu"
build_example "${CC:-cc}" "$folder/emu" "$folder"
(cd "$folder" && ./run_scale) | holds "the example"
broken no_syncwarp '/warp_sync();/d'
broken no_empty_wait '/mbarrier_wait(empty/d'
broken five_arrivals 's/mbarrier_init(empty + 8 \* s, 4)/mbarrier_init(empty + 8 * s, 5)/'
echo "docs_example: right and broken kernels print what the page says"

cross=aarch64-linux-gnu-gcc
if ! command -v $cross >/dev/null; then
    echo "docs_example: aarch64 not built, $cross is not installed"
    exit 0
fi
build_emu $cross "$folder/aarch64" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64
build_example $cross "$folder/aarch64" "$folder"
if ! command -v qemu-aarch64 >/dev/null; then
    echo "docs_example: built for aarch64, not run: qemu-aarch64 is not installed"
    exit 0
fi
(cd "$folder" && qemu-aarch64 -L /usr/aarch64-linux-gnu ./run_scale) | holds "the example on aarch64"
echo "docs_example: the same on aarch64"
