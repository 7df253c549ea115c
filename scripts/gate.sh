#!/usr/bin/env bash
# Compiles kernels for the architecture they are written for, and fails where ptxas had to give in: a spill, a stack frame,
# a wgmma that it serialised (messages C75xx). Needs nvcc but no GPU; without nvcc it says so, checks nothing
# and exits with 77.
#
#   scripts/gate.sh            all kernels below
#
# A row: what to hold it to (fast: all of the above; assembles: only that it does), file, architecture, definitions.
set -euo pipefail
cd "$(dirname "$0")/.."

# The Hopper forward kernel: d_qk, d_v, block_n, warpgroups, stages, ping-pong, O apart, CTAs, registers; each with whether operands are
# gathered; each with no mask, an upper and both limits.
forward_rows() {
    local d_qk d_v block_n warpgroups stages ping_pong separate_o ctas load compute gather mask bf16
    while read -r d_qk d_v block_n warpgroups stages ping_pong separate_o ctas load compute gather; do
        for mask in 0 1 3; do
            bf16=$((mask != 3))
            echo "fast src/device/sm90/sm90_forward.c sm_90a -DATTN_CFG_KERNEL=forward -DATTN_CFG_BF16=$bf16" \
                "-DATTN_CFG_D_QK=$d_qk -DATTN_CFG_D_V=$d_v -DATTN_CFG_BLOCK_N=$block_n" \
                "-DATTN_CFG_WARPGROUPS=$warpgroups -DATTN_CFG_STAGES=$stages -DATTN_CFG_MASK=$mask" \
                "-DATTN_CFG_PING_PONG=$ping_pong -DATTN_CFG_SEPARATE_O=$separate_o -DATTN_CFG_CTAS=$ctas" \
                "-DATTN_CFG_LOAD_REGISTERS=$load -DATTN_CFG_COMPUTE_REGISTERS=$compute -DATTN_CFG_GATHER=${gather:-0}"
        done
    done <<FORWARD
64 64 128 3 3 1 1 1 32 160
64 64 64 1 2 0 1 3 24 136
128 128 128 2 2 1 1 1 40 232
128 128 80 3 2 1 1 1 32 160
128 128 64 3 3 1 1 1 32 160
192 128 64 2 2 0 0 1 40 232
256 256 64 2 2 0 0 1 40 232
128 128 64 1 2 0 1 2 72 184 1
256 256 48 1 2 0 0 1 72 256 1
FORWARD
}

# The Hopper backward kernels: d_qk, d_v, block_m, registers of the key warpgroups.
backward_rows() {
    local d_qk d_v block_m compute mask kernel
    while read -r d_qk d_v block_m compute; do
        for mask in 0 3; do
            for kernel in backward backward_preprocess backward_postprocess; do
                echo "fast src/device/sm90/sm90_$kernel.c sm_90a -DATTN_CFG_KERNEL=backward -DATTN_CFG_BF16=1" \
                    "-DATTN_CFG_D_QK=$d_qk -DATTN_CFG_D_V=$d_v -DATTN_CFG_BLOCK_M=$block_m -DATTN_CFG_WARPGROUPS=2" \
                    "-DATTN_CFG_STAGES=2 -DATTN_CFG_MASK=$mask -DATTN_CFG_LOAD_REGISTERS=24" \
                    "-DATTN_CFG_PAIR=$((d_qk > 128)) -DATTN_CFG_DETERMINISTIC=0 -DATTN_CFG_COMPUTE_REGISTERS=$compute"
            done
        done
    done <<BACKWARD
64 64 128 192
128 128 64 208
256 256 64 208
BACKWARD
}

rows="
fast examples/ladder/ampere_gemm.c sm_80
fast examples/ladder/ampere_gemm.c sm_90a
fast examples/ladder/ampere_gemm.c sm_120a
fast examples/ladder/tma_copy.c sm_90a
fast examples/ladder/hopper_gemm.c sm_90a
fast examples/ladder/hopper_attention.c sm_90a -DHEAD_DIM=64
fast examples/ladder/hopper_attention.c sm_90a -DHEAD_DIM=128
assembles tests/emu/every_instruction.c sm_80
fast examples/ladder/blackwell_gemm.c sm_100a
fast examples/ladder/blackwell_gemm.c sm_103a
fast examples/ladder/blackwell_attention.c sm_100a -DHEAD_DIM=64
fast examples/ladder/blackwell_attention.c sm_100a -DHEAD_DIM=128
fast examples/ladder/blackwell_attention.c sm_103a -DHEAD_DIM=64
fast examples/ladder/blackwell_attention.c sm_103a -DHEAD_DIM=128
fast examples/ladder/blackwell_attention_pair.c sm_100a
fast examples/ladder/blackwell_attention_pair.c sm_103a
fast src/device/common/fill_forward.c sm_90a -DATTN_CFG_KERNEL=fill -DATTN_CFG_O_BYTES=2
fast src/device/common/merge_results.c sm_80 -DATTN_CFG_KERNEL=merge
fast src/device/common/merge_results.c sm_90a -DATTN_CFG_KERNEL=merge
fast src/device/common/append_tokens.c sm_80 -DATTN_CFG_KERNEL=append
fast src/device/common/append_tokens.c sm_90a -DATTN_CFG_KERNEL=append
$(forward_rows)
$(backward_rows)
assembles tests/emu/every_instruction.c sm_90a
assembles tests/emu/every_instruction.c sm_100a
assembles tests/emu/every_instruction.c sm_103a
assembles tests/emu/every_instruction.c sm_120a
assembles tests/emu/every_tcgen05.c sm_100a
assembles tests/emu/every_tcgen05.c sm_100a -DPAIR
assembles tests/emu/every_tcgen05.c sm_103a
assembles tests/emu/every_tcgen05.c sm_103a -DPAIR
"

nvcc=$(command -v nvcc || true)
[ -n "$nvcc" ] || [ ! -x /usr/local/cuda/bin/nvcc ] || nvcc=/usr/local/cuda/bin/nvcc
if [ -z "$nvcc" ]; then
    echo "gate: skipped, nvcc is not installed (neither in PATH nor in /usr/local/cuda/bin)"
    exit 77
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
count=0
while read -r hold file arch definitions; do
    [ -n "$hold" ] || continue
    count=$((count + 1))
    log=$folder/log
    # shellcheck disable=SC2086 # definitions are words
    if ! "$nvcc" -x cu -arch="$arch" -O3 -cubin -Xptxas -v $definitions "$file" -o "$folder/kernel.cubin" >"$log" 2>&1; then
        reason="does not compile"
    elif [ "$hold" = fast ] && grep -qE 'C75[0-9][0-9]' "$log"; then
        reason="wgmma is serialised or changed by ptxas"
    elif [ "$hold" = fast ] && grep -qE '[1-9][0-9]* bytes (stack frame|spill)' "$log"; then
        reason="stack frame or spills"
    elif grep -qi 'warning' "$log"; then
        reason="warnings"
    elif ! grep -q 'Used [0-9]* registers' "$log"; then
        reason="no kernel in it"
    else
        echo "gate: ok     $file $arch $definitions: $(grep -o 'Used [0-9]* registers' "$log" | tail -n 1)"
        continue
    fi
    failed=$((failed + 1))
    echo "gate: FAILED $file $arch $definitions: $reason"
    sed 's/^/    /' "$log" | cut -c 1-300 | head -n 30
done <<<"$rows"
echo "gate: $count compiled, $failed failed"
[ "$failed" -eq 0 ]
