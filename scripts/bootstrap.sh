#!/usr/bin/env bash
# Makes sure that the tools and libraries of one use of libattn are on this machine.
#
#   scripts/bootstrap.sh library   C compiler and cmake
#   scripts/bootstrap.sh tools     ... and what the attn command needs (make demo, make bench)
#   scripts/bootstrap.sh test      ... and what the full test run needs
#   scripts/bootstrap.sh docs      doxygen
#   scripts/bootstrap.sh --have SET   only answers by exit status; installs and prints nothing
#
# Looks for the things themselves, not for packages, so that any machine that has them passes. What is
# missing is installed with apt-get when that is possible without a password; otherwise the exact
# command is printed and the exit status is 1. ATTN_BOOTSTRAP=no forbids installing.
set -euo pipefail

# What can be missing: check | Debian and Ubuntu package(s). One line each, in the order they are needed.
library_needs() {
    echo "have_command cc|gcc libc6-dev"
    echo "have_header stdio.h|libc6-dev"
    echo "have_command cmake|cmake"
    echo "have_command make|make"
}
tools_needs() {
    library_needs
    echo "have_command pkg-config|pkg-config"
    echo "have_library jansson|libjansson-dev"
    echo "have_library libpng|libpng-dev"
}
test_needs() {
    tools_needs
    echo "have_command c++|g++"
    echo "have_library cmocka|libcmocka-dev"
    echo "have_command readelf|binutils"
    echo "have_command setarch|util-linux"
    echo "have_command clang|clang"
    echo "have_fuzzer|$(clang_runtime_package)"
    echo "have_command clang-format|clang-format"
}
docs_needs() {
    echo "have_command make|make"
    echo "have_command doxygen|doxygen"
}

have_command() { command -v "$1" >/dev/null 2>&1; }
have_header() { echo "#include <$1>" | cc -E -xc - >/dev/null 2>&1; }
have_library() { pkg-config --exists "$1" 2>/dev/null; }

# libFuzzer and its ASan runtime come in a package of their own, named after clang's version.
have_fuzzer() {
    local folder
    have_command clang || return 1
    folder=$(mktemp -d)
    echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { (void)d; return n == 0 ? 0 : 0; }' >"$folder/f.c"
    clang -fsanitize=fuzzer,address "$folder/f.c" -o "$folder/f" >/dev/null 2>&1
    local status=$?
    rm -rf "$folder"
    return $status
}

clang_runtime_package() {
    local version=""
    if have_command clang; then
        version=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
    elif have_command apt-cache; then
        version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    fi
    # A machine whose package lists were never fetched cannot be asked; what its release ships is known.
    if [ -z "$version" ]; then
        case "$(sed -n 's/^\(ID\|VERSION_ID\)="\{0,1\}\([^"]*\)"\{0,1\}$/\2/p' /etc/os-release 2>/dev/null | sort | paste -sd ' ' -)" in
        "24.04 ubuntu") version=18 ;;
        "13 debian") version=19 ;;
        *) version=14 ;;
        esac
    fi
    echo "libclang-rt-$version-dev"
}

# Prints the packages whose check fails, each once.
missing_packages() {
    local check packages
    "${1}_needs" | while IFS='|' read -r check packages; do
        # shellcheck disable=SC2086
        $check || printf '%s\n' $packages
    done | awk '!seen[$0]++' | paste -sd ' ' -
}

# Prints the words that must stand before apt-get ("" or "sudo"); fails where we may not install.
apt_prefix() {
    [ "${ATTN_BOOTSTRAP:-yes}" != no ] && have_command apt-get || return 1
    if [ "$(id -u)" -eq 0 ]; then
        echo ""
    elif have_command sudo && sudo -n true 2>/dev/null; then
        echo "sudo"
    else
        return 1
    fi
}

main() {
    local quiet=no set_name missing prefix
    if [ "${1:-}" = --have ]; then
        quiet=yes
        shift
    fi
    set_name=${1:-}
    case "$set_name" in
    library | tools | test | docs) ;;
    *)
        echo "usage: scripts/bootstrap.sh [--have] library|tools|test|docs" >&2
        exit 2
        ;;
    esac

    missing=$(missing_packages "$set_name")
    [ -n "$missing" ] || exit 0
    [ "$quiet" = no ] || exit 1

    if ! prefix=$(apt_prefix); then
        echo "bootstrap: for '$set_name' this machine lacks: $missing" >&2
        echo "bootstrap: they cannot be installed from here without a password; on Debian or Ubuntu run" >&2
        echo "    sudo apt-get update && sudo apt-get install --no-install-recommends $missing" >&2
        exit 1
    fi
    echo "bootstrap: for '$set_name' this machine lacks: $missing"
    echo "bootstrap: installing with ${prefix:+$prefix }apt-get"
    # A mirror that does not answer is no reason to stop: the packages may be in apt's cache.
    $prefix apt-get update -qq </dev/null || true
    # The first list may name a guess (clang's run-time package): look again now that apt has its lists.
    missing=$(missing_packages "$set_name")
    # shellcheck disable=SC2086
    if ! $prefix env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
        </dev/null >/dev/null; then
        echo "bootstrap: apt-get could not install: $missing" >&2
        exit 1
    fi
    missing=$(missing_packages "$set_name")
    if [ -n "$missing" ]; then
        echo "bootstrap: still missing after installing: $missing" >&2
        exit 1
    fi
    echo "bootstrap: done"
}

main "$@"
