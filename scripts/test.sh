#!/usr/bin/env bash
# Everything a change must pass, in stages. `make test` runs them all; `scripts/test.sh STAGE...` only those named.
#
#   lint      include rules, names, words, layout of the sources; the lint checks itself first
#   release   the host tests as users get the library, and the GPU emulator's
#   gate      GPU kernels compile for their architecture without spills or serialised wgmma: lists of them with nvcc, the
#             kernels of every tuning row with NVRTC
#   consumer  from an install: pkg-config, find_package, C++; the header alone; exported symbols, SONAME, size
#   asan      the host and emulator tests under AddressSanitizer, LeakSanitizer and UBSan; not those labelled `sweep`:
#             the deletion of every synchronisation call of a kernel in turn (the two shortest sweeps stand for all),
#             and the Hopper kernels' widest heads
#   tsan      the tests labelled `threads` under ThreadSanitizer
#   fuzz      FUZZ_SECONDS (60) of libFuzzer over all targets
#   slow      long sweeps; not part of the whole run, name it to run it
#   gpu       what needs an NVIDIA GPU; not part of the whole run, without a GPU it says so and skips
#
# Each stage says how to run it alone, ctest says the same for each failing test. Environment: JOBS,
# FUZZ_SECONDS, FUZZ_SEED (1; 0 draws a new one).
# The last line is "N passed, N failed"; the exit status is 0 only when something ran and nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."

DEFAULT_STAGES="lint release gate consumer asan tsan fuzz"
JOBS=${JOBS:-$(nproc)}
passed=0
failed=0
summary=()
note=""
ctest_prefix=()

# Runs ctest on a build folder and adds its totals. Arguments: folder, then ctest's own. A caller may set ctest_prefix.
run_ctest() {
    local folder=$1 log totals total fails
    shift
    log=$(mktemp)
    "${ctest_prefix[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$JOBS" "$@" 2>&1 | tee "$log"
    local status=${PIPESTATUS[0]}
    totals=$(sed -n 's/.*tests passed, \([0-9]*\) tests\{0,1\} failed out of \([0-9]*\)$/\1 \2/p' "$log" | tail -n 1)
    rm -f "$log"
    read -r fails total <<<"${totals:-1 1}"
    passed=$((passed + total - fails))
    failed=$((failed + fails))
    return "$status"
}

# Counts one check that is not a ctest test.
run_check() {
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $*"
        return 1
    fi
}

# Configures and builds; a failure counts as one failed test. Arguments: folder, then cmake's own. Warnings are errors
# here, and only here: a newer compiler's new warning must not keep a user from building.
build() {
    local folder=$1
    shift
    if ! { cmake -S . -B "$folder" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON "$@" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log"; false; }; } ||
        ! { cmake --build "$folder" -j "$JOBS" >"$folder.build.log" 2>&1 || { tail -n 80 "$folder.build.log"; false; }; }; then
        failed=$((failed + 1))
        return 1
    fi
}

stage_lint() {
    run_check scripts/lint_selftest.sh
    run_check scripts/lint.sh
}

stage_release() {
    build build/test -DCMAKE_BUILD_TYPE=Release -DATTN_TOOLS=ON -DATTN_TESTS=ON &&
        run_ctest build/test -L 'host|emu' -LE 'slow|consumer'
}

# A machine without nvcc passes, and the summary says so; any other failure of the gate is one. Without NVRTC ctest shows
# the rows as skipped.
stage_gate() {
    local status=0
    scripts/gate.sh || status=$?
    if [ "$status" -eq 77 ]; then
        note="no nvcc: its list was not compiled"
        status=0
    fi
    run_check [ "$status" -eq 0 ]
    build build/test -DCMAKE_BUILD_TYPE=Release -DATTN_TOOLS=ON -DATTN_TESTS=ON && run_ctest build/test -L gate
}

stage_consumer() {
    build build/test -DCMAKE_BUILD_TYPE=Release -DATTN_TOOLS=ON -DATTN_TESTS=ON &&
        run_ctest build/test -L consumer
}

# cmocka would catch a crash before the sanitizer can say where it was. Stack use after return is not looked for: gcc 12
# puts the frames of functions with AVX-512 vectors at addresses of its own then, and those are multiples of 32 only, but
# stores the vectors with vmovdqa64, which needs 64 (detect_stack_use_after_return=1: seen in backward_scores).
stage_asan() {
    build build/asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DATTN_SANITIZE=address,undefined -DATTN_TOOLS=ON -DATTN_TESTS=ON &&
        ASAN_OPTIONS=allow_user_segv_handler=0:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
            run_ctest build/asan -L 'host|emu' -LE 'slow|consumer|sweep'
}

# Without OpenMP: its barriers are invisible to ThreadSanitizer. The threads come from the tests' own pool.
# gcc 12's ThreadSanitizer cannot live with the address layout of newer kernels: setarch fixes the layout where it may.
stage_tsan() {
    build build/tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DATTN_SANITIZE=thread -DATTN_OPENMP=OFF -DATTN_TOOLS=OFF \
        -DATTN_TESTS=ON -DATTN_EMU=OFF || return 1
    local ctest_prefix=()
    setarch "$(uname -m)" -R true 2>/dev/null && ctest_prefix=(setarch "$(uname -m)" -R)
    TSAN_OPTIONS=halt_on_error=1 run_ctest build/tsan -L threads -LE slow
}

stage_fuzz() {
    build build/fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DATTN_FUZZ=ON \
        -DATTN_SANITIZE=address,undefined,fuzzer-no-link -DATTN_OPENMP=OFF -DATTN_TOOLS=ON -DATTN_TESTS=OFF || return 1
    local targets target seconds
    mapfile -t targets < <(find build/fuzz -type f -name 'fuzz_*' -perm -u+x | sort)
    if [ "${#targets[@]}" -eq 0 ]; then
        echo "FAILED: no fuzz target was built"
        failed=$((failed + 1))
        return 1
    fi
    seconds=$((${FUZZ_SECONDS:-60} / ${#targets[@]}))
    for target in "${targets[@]}"; do
        run_check scripts/fuzz.sh "$target" "$seconds"
    done
}

stage_slow() {
    build build/test -DCMAKE_BUILD_TYPE=Release -DATTN_TOOLS=ON -DATTN_TESTS=ON && run_ctest build/test -L slow
}

stage_gpu() {
    build build/test -DCMAKE_BUILD_TYPE=Release -DATTN_TOOLS=ON -DATTN_TESTS=ON && run_ctest build/test -L gpu
}

main() {
    local stages=${*:-$DEFAULT_STAGES} stage before started
    case "$stages" in
    -h | --help)
        sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
        exit 0
        ;;
    esac
    for stage in $stages; do
        declare -F "stage_$stage" >/dev/null || { echo "test.sh: no stage '$stage'; --help lists them" >&2; exit 2; }
    done
    scripts/bootstrap.sh test </dev/null || exit 1
    mkdir -p build
    for stage in $stages; do
        echo
        echo "== $stage  (alone: scripts/test.sh $stage)"
        before=$failed
        started=$SECONDS
        note=""
        "stage_$stage" </dev/null
        if [ "$failed" -eq "$before" ]; then
            summary+=("ok      $stage  $((SECONDS - started)) s${note:+  ($note)}")
        else
            summary+=("FAILED  $stage  $((SECONDS - started)) s  (alone: scripts/test.sh $stage)")
        fi
    done
    echo
    printf '%s\n' "${summary[@]}"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

main "$@"
