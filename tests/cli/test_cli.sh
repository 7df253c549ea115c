#!/bin/sh
# The attn command from outside: results, exit statuses, error texts, and that nothing is half-written.
#
#   test_cli.sh ATTN SOURCE_FOLDER
#
# Makes its own inputs with `attn random`. Prints every failure and exits with 1 if there was one.
set -u
attn=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
checks=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# expect STATUS TEXT COMMAND...: the status, and a fixed text somewhere in the output ("" is any).
expect() {
    wanted=$1
    text=$2
    shift 2
    checks=$((checks + 1))
    "$@" >out.txt 2>&1 </dev/null
    status=$?
    if [ "$status" -ne "$wanted" ]; then
        fail "status $status, expected $wanted: $*"
        sed 's/^/    /' out.txt
    elif [ -n "$text" ] && ! grep -qF -e "$text" out.txt; then
        fail "no '$text' in the output of: $*"
        sed 's/^/    /' out.txt
    fi
}

same() {
    checks=$((checks + 1))
    cmp "$1" "$2" >/dev/null 2>&1 || fail "$1 and $2 differ"
}

# The same numbers behind headers of the same length.
same_data() {
    checks=$((checks + 1))
    tail -c +129 "$1" >a.bin
    tail -c +129 "$2" >b.bin
    cmp a.bin b.bin >/dev/null 2>&1 || fail "$1 and $2 hold different numbers"
}

differs() {
    checks=$((checks + 1))
    ! cmp "$1" "$2" >/dev/null 2>&1 || fail "$1 and $2 are the same"
}

absent() {
    checks=$((checks + 1))
    [ ! -e "$1" ] || fail "$1 exists"
}

random() {
    "$attn" random "$@" || fail "attn random $*"
}

# ------------------------------------------------------------------------------------------------
# Inputs

random --shape 40,4,16 --seed 1 -o q.npy
random --shape 40,2,16 --seed 2 -o k.npy
random --shape 40,2,16 --seed 3 -o v.npy
random --shape 40,4,16 --seed 4 -o do.npy
qkv="--q q.npy --k k.npy --v v.npy"

# ------------------------------------------------------------------------------------------------
# Help and information

for command in run grad check bench view explain compile cache info random demo; do
    expect 0 "usage: attn $command" "$attn" "$command" --help
    # Every option of the help stands in the man page.
    "$attn" "$command" --help | sed -n 's/^  .*--\([a-z0-9-]*\).*/\1/p' | while read -r name; do
        grep -qF -e "$(printf '%s' "--$name" | sed 's/-/\\-/g')" "$source/docs/man/attn.1" || echo "$command --$name"
    done >missing.txt
    checks=$((checks + 1))
    [ ! -s missing.txt ] || fail "not in attn.1: $(tr '\n' ' ' <missing.txt)"
done
expect 0 "Exit status" "$attn" --help
expect 0 "attn " "$attn" --version
expect 2 "usage: attn COMMAND" "$attn"
expect 2 "'rum' is no command" "$attn" rum
expect 2 "did you mean --causal" "$attn" run --casual
expect 2 "-x: no such option; --help lists them" "$attn" run -x
expect 2 "given twice" "$attn" run --causal --causal
expect 2 "its value is missing" "$attn" run --window
expect 2 "expected a whole number in [-1" "$attn" run --window x
expect 2 "expected a whole number in [-1" "$attn" run --window -2,0
expect 2 "expected one of: bshd bhsd" "$attn" run --layout hsbd
expect 2 "takes no value" "$attn" run --causal=1
expect 2 "unexpected" "$attn" run q.npy
expect 2 "expected a number in" "$attn" run --dropout 1
expect 2 "expected a number" "$attn" run --scale nan
expect 0 "libattn" "$attn" info
expect 0 '"version"' "$attn" info --json
expect 0 "" "$attn" explain --seqlen 4096 --heads 32,8 --dim 128 --causal
expect 0 '"kernel"' "$attn" explain --json --seqlen 1,1000000 --heads 32,8
expect 0 '"supported": false' "$attn" explain --json --backend cuda
expect 2 "cannot write" sh -c "'$attn' info >/dev/full"
expect 0 "no NVIDIA driver" "$attn" info
expect 0 '"gpus": []' "$attn" info --json

# ------------------------------------------------------------------------------------------------
# GPU kernels: a compiler and a driver that are fakes stand in ATTN_NVRTC and FAKE_DRIVER

ATTN_CACHE=$PWD/kernels
export ATTN_CACHE
expect 0 "kernels 0, bytes 0, damaged 0" "$attn" cache
expect 0 "kernels.pack: kernels 6, problems 1, architectures sm_90a,sm_100a" \
    "$attn" compile --arch sm_90a,sm_100a --seqlen 64,0 -o kernels.pack
expect 0 '"kernels": 3' "$attn" compile -a sm_90a --seqlen 64,0 --json -o one.pack
printf 'none s=0 d=64 dtype=bf16,\n' >bad.txt
expect 2 "bad.txt:1" "$attn" compile -a sm_90a bad.txt -o bad.pack
printf 'none s=0 d=64 dtype=bf16\nnone32 s=0 d=128\nsame s=0 d=32\n' >none.txt
expect 0 "kernels 4, problems 3" "$attn" compile -a sm_90a none.txt -o three.pack
printf 'none s=0 d=64\nsome s=0,64 d=64\n' >some.txt
expect 2 "some/64: unsupported" "$attn" compile -a sm_90a some.txt -o bad.pack
expect 2 "compile: unsupported: legal, but no kernel here does it: backend: cuda" "$attn" compile -a sm_90a --seqlen 64 -o bad.pack
expect 2 "s_kv: 64" "$attn" compile -a sm_90a --seqlen 64 -o bad.pack
expect 2 'archs: "sm_90"' "$attn" compile -a sm_90 --seqlen 64,0 -o bad.pack
expect 2 "sm_120a is unknown to NVRTC" "$attn" compile -a sm_120a --seqlen 64,0 -o bad.pack
expect 2 "it is for the forward pass" "$attn" compile -a sm_90a --seqlen 64,0 --backward -o bad.pack
expect 2 "ATTN_JIT=0" env ATTN_JIT=0 ATTN_CACHE=off "$attn" compile -a sm_90a --seqlen 64,0 -o bad.pack
expect 2 "nowhere/x.pack: No such file" "$attn" compile -a sm_90a --seqlen 64,0 -o nowhere/x.pack
expect 2 "--out: missing" "$attn" compile -a sm_90a
expect 2 "--arch: missing" "$attn" compile -o x.pack
absent bad.pack
expect 0 "sm100_fill_o4" "$attn" cache show --pack kernels.pack
expect 0 "damaged 0" "$attn" cache
expect 0 '"arch": "sm_90a"' "$attn" cache --json
expect 0 '"damaged": 0' "$attn" cache check --json --pack kernels.pack
for file in kernels/*.kernel; do
    printf 'x' >>"$file"
    break
done
expect 1 "cut off, or lengths that do not add up" "$attn" cache check
expect 0 "removed 1" "$attn" cache trim
expect 0 "damaged 0" "$attn" cache check
expect 0 '"removed": ' "$attn" cache trim --max-mib 0 --json
expect 0 "kernels 0, bytes 0" "$attn" cache
printf 'x' >kernels.bad
expect 2 "too short for a pack" "$attn" cache --pack kernels.bad
expect 2 "expected show, check or trim" "$attn" cache clear
expect 2 "a pack is not trimmed" "$attn" cache trim --pack kernels.pack
expect 0 "ATTN_CACHE is off" env ATTN_CACHE=off "$attn" cache
gpu="env ATTN_CUDA_LIBRARY=$FAKE_DRIVER FAKE_CUDA_DEVICES=90,100"
expect 0 "Fake GPU 1, compute capability 10.0, 133 multiprocessors, 1.98 GHz" $gpu "$attn" info
expect 0 '"compute": 100' $gpu "$attn" info --json
expect 0 "kernel: sm100_fill_o4" $gpu "$attn" explain --backend cuda --device 1 --seqlen 64,0
expect 0 '"kernel": "sm90_fill_o4"' $gpu ATTN_JIT=0 ATTN_PACK=kernels.pack "$attn" explain --json \
    --backend cuda --seqlen 64,0
expect 0 "ATTN_JIT=0 forbids" $gpu ATTN_JIT=0 "$attn" explain --json --backend cuda --seqlen 64,0
random --shape 0,4,16 -o empty_kv.npy
# The fake driver has memory and runs nothing: what no kernel wrote stays NaN, and is found.
empty="--q q.npy --k empty_kv.npy --v empty_kv.npy --backend cuda"
expect 0 "sm90_fill_o4" $gpu "$attn" run $empty -o gpu.npy --lse gpu_lse.npy
checks=$((checks + 1))
[ "$(wc -c <gpu.npy)" -eq "$(wc -c <q.npy)" ] || fail "o from the GPU has another size than q"
expect 1 "2560 NaN or inf misplaced" $gpu "$attn" check --backend cuda --seqlen 40,0 --heads 4 --dim 16
expect 1 '"ok": false' $gpu "$attn" check --backend cuda --json --seqlen 40,0
expect 1 "refused: attn explain says why" $gpu "$attn" check --backend cuda
expect 1 '"refused": "backward"' $gpu "$attn" check --backend cuda --dtype f16 --json
expect 2 "q.dtype: 0" $gpu "$attn" run $qkv --backend cuda -o none.npy
expect 2 "it is for the forward pass" $gpu "$attn" grad $empty --do do.npy --out none.safetensors
expect 2 "an operand: 10240 bytes on the GPU: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)" \
    $gpu FAKE_CUDA_FAIL=cuMemAlloc_v2=2 "$attn" run $empty -o none.npy
expect 2 "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)" \
    $gpu FAKE_CUDA_FAIL=cuCtxSynchronize=719 "$attn" run $empty -o none.npy
expect 2 "device_index: 2" $gpu "$attn" run $empty --device 2 -o none.npy
expect 2 "device_index: 1, expected 0 for the CPU" "$attn" run $qkv --device 1 -o none.npy
expect 2 "no NVIDIA driver" "$attn" run $empty -o none.npy
absent none.npy
absent none.safetensors
# A run takes the fake driver's millisecond: 2 * 2 * 8 * 256 * 256 * 128 operations are 0.27 TFLOP/s, cold and sustained.
printf 'bf tokens=512 s=256 h=4 d=64 dtype=bf16\nf32 s=256 d=64\npack packed=100,28 h=2 d=64 dtype=f16 causal\n' >gpu.txt
bench_gpu="bench --backend cuda --samples 3 --warmup 0 --idle 0 --heat 0 --rounds 2 --no-rates --series bf,f32,pack"
expect 0 "left out: f32/256: backend: cuda, no kernel for it" $gpu "$attn" $bench_gpu gpu.txt --no-check --json gpu.json --svg gpu.svg
grep -q "bf/256 .*sm90_fwd_bf16.* 1001.0 .* 0.0 %.* 0 .* 0 .* - .* - .* - .* -" out.txt || fail "no row of the GPU: $(cat out.txt)"
grep -q "pack/128 .*sm90_fwd_f16" out.txt || fail "no row of packed sequences"
checks=$((checks + 2))
expect 1 "wrong result" $gpu "$attn" $bench_gpu gpu.txt
expect 0 "sustained" "$attn" bench --from gpu.json --peers gpu.json
expect 0 "TFLOP/s" grep -o "TFLOP/s" gpu.svg
expect 2 "cuMemAlloc" $gpu FAKE_CUDA_FAIL=cuMemAlloc_v2=2 "$attn" $bench_gpu gpu.txt
expect 2 "cuEventRecord" $gpu FAKE_CUDA_FAIL=cuEventRecord=400 "$attn" $bench_gpu gpu.txt --no-check
expect 2 "no NVIDIA driver" "$attn" $bench_gpu gpu.txt
ATTN_CACHE=off

# ------------------------------------------------------------------------------------------------
# Forward

expect 0 "cpu_" "$attn" run $qkv -o o.npy --lse lse.npy
expect 0 "" "$attn" run $qkv -o again.npy --threads 1
same o.npy again.npy
expect 0 '"seconds"' "$attn" run $qkv --json -o again.npy
expect 0 "" "$attn" run $qkv --causal -o causal.npy
expect 0 "" "$attn" run $qkv --window=-1,0 -o window.npy
same causal.npy window.npy
differs causal.npy o.npy
# A single sequence, packed, is the dense problem; two of them are not.
expect 0 "" "$attn" run $qkv --cu-seqlens-q 0,40 --cu-seqlens-kv 0,40 -o packed.npy
same o.npy packed.npy
expect 0 "" "$attn" run $qkv --cu-seqlens-q 0,10,40 --cu-seqlens-kv 0,10,40 -o packed.npy
differs o.npy packed.npy
random --values 0,10,40 --dtype i64 -o cu.npy
expect 0 "" "$attn" run $qkv --cu-seqlens-q cu.npy --cu-seqlens-kv cu.npy -o packed2.npy
same packed.npy packed2.npy
# One head: (S, 1, D) and (1, S, D) are the same memory.
random --shape 40,1,16 --seed 5 -o one.npy
random --shape 1,40,16 --seed 5 -o bhsd.npy
expect 0 "" "$attn" run --q one.npy --k one.npy --v one.npy -o one_o.npy
expect 0 "" "$attn" run --q bhsd.npy --k bhsd.npy --v bhsd.npy --layout bhsd -o bhsd_o.npy
same_data one_o.npy bhsd_o.npy
# One key: every row is that value, whatever the scores.
random --shape 1,2,16 --seed 6 -o x.npy
expect 0 "" "$attn" run --q x.npy --k x.npy --v x.npy -o x_o.npy
same x.npy x_o.npy
# 4 dims, 16-bit types, .safetensors in and out, several tensors in one file.
random --shape 2,40,4,16 --dtype bf16 -o q4.safetensors:q
random --shape 2,40,4,16 --dtype bf16 -o q4.npy
expect 0 "bf16" "$attn" run --q q4.safetensors:q --k q4.safetensors --v q4.npy -o r.safetensors --lse r.safetensors
expect 0 "bf16" "$attn" run --q q4.npy --k q4.npy --v q4.npy -o r2.safetensors:o --lse r2.safetensors:lse
same r.safetensors r2.safetensors
expect 2 "no tensor" "$attn" run --q r.safetensors:nothing --k k.npy --v v.npy -o n.npy
# Every option changes the result.
for option in "--softcap 2" "--scale 0.1" "--window 3,3" "--align top-left --window 3,3 --seqused-kv 30" "--alibi standard" \
    "--alibi 0.1,0.2,0.3,0.4" "--sink 0,1,2,3" "--sink random" "--bias random" "--mask random" "--dropout 0.5 --seed 3" \
    "--seqused-q 20" "--seqused-kv 20" "--leftpad-kv 4" "--dtype f16" "--dtype f8e4m3" "--dtype f8e4m3 --v-descale 2"; do
    # shellcheck disable=SC2086
    expect 0 "" "$attn" run $qkv $option -o changed.npy
    differs changed.npy o.npy
done
expect 0 "" "$attn" run $qkv --dropout 0.5 --seed 4 -o d4.npy
expect 0 "" "$attn" run $qkv --dropout 0.5 --seed 5 -o d5.npy
differs d4.npy d5.npy
# Pages in order are the dense cache.
random --shape 40,2,16 --seed 2 -o k3.npy
random --shape 4,10,2,16 --seed 2 -o kp.npy
random --shape 4,10,2,16 --seed 3 -o vp.npy
random --shape 1,40,4,16 --seed 1 -o q1.npy
expect 0 "paged" "$attn" run --q q1.npy --k kp.npy --v vp.npy --page-table 0,1,2,3 -o paged.npy
same_data paged.npy o.npy
expect 2 "page_table" "$attn" run --q q1.npy --k kp.npy --v vp.npy --page-table 0,1,2,4 -o n.npy
# Blocks: all listed is dense, one missing is not.
random --shape 1,1,2 --values 2 --dtype i32 -o count.npy
random --shape 1,1,2,2 --values 0,1 --dtype i32 -o index.npy
expect 0 "blocks" "$attn" run $qkv --block-size 20 --block-count count.npy --block-index index.npy -o b.npy
random --shape 1,1,2 --values 1 --dtype i32 -o count.npy
expect 0 "blocks" "$attn" run $qkv --block-size 20 --block-count count.npy --block-index index.npy -o b1.npy
differs b1.npy o.npy
expect 2 "all three or none" "$attn" run $qkv --block-size 20 -o n.npy
# Numbers in place of a file may be infinite: a sink of -inf takes nothing, one of +inf or NaN leaves nothing else.
expect 0 "sink" "$attn" run $qkv --sink -inf,-inf,-inf,-inf -o s_none.npy
same s_none.npy o.npy
expect 0 "sink" "$attn" run $qkv --sink nan,0,inf,0 -o s_nan.npy
differs s_nan.npy o.npy
expect 2 "nanny: cannot open" "$attn" run $qkv --sink nanny -o n.npy
expect 2 "is 0 as a 32-bit float" "$attn" run $qkv --softcap 1e-50 -o n.npy
expect 2 "300 is no u8" "$attn" random --values 1,300 --dtype u8 -o n.npy
expect 2 "1.5 is no i32" "$attn" random --values 1.5 --dtype i32 -o n.npy
expect 2 "nan is no bool" "$attn" random --values nan --dtype bool -o n.npy
absent n.npy
# NaN in a query reaches its own row alone; the other rows keep their bits.
random --shape 4,1,4 --values 1,2,3,4,nan,2,3,4,1,1,1,1,2,2,2,2 -o nan.npy
random --shape 4,1,4 --values 1,2,3,4,5,2,3,4,1,1,1,1,2,2,2,2 -o good.npy
expect 0 "" "$attn" run --q nan.npy --k good.npy --v good.npy -o nan_o.npy
expect 0 "" "$attn" run --q good.npy --k good.npy --v good.npy -o good_o.npy
checks=$((checks + 1))
[ "$(cmp -l nan_o.npy good_o.npy | awk '$1 <= 144 || $1 > 160' | wc -l)" -eq 0 ] || fail "NaN reached other rows"
differs nan_o.npy good_o.npy

# ------------------------------------------------------------------------------------------------
# Backward

expect 0 "bwd" "$attn" grad $qkv --do do.npy --out g.safetensors
expect 0 "bwd" "$attn" grad $qkv --do do.npy --o o.npy --lse lse.npy --out g2.safetensors
same g.safetensors g2.safetensors
expect 0 "" "$attn" grad $qkv --do do.npy --dq dq.npy --dv dv.npy --sink 0,1,2,3 --dsink ds.npy --bias random --dbias db.npy
expect 0 "" "$attn" grad $qkv --do do.npy --dlse lse.npy --dq dq2.npy
differs dq.npy dq2.npy
expect 2 "do: missing" "$attn" grad $qkv --dq n.npy
expect 2 "nothing to write" "$attn" grad $qkv --do do.npy
expect 2 "give both or none" "$attn" grad $qkv --do do.npy --o o.npy --dq n.npy
expect 2 "there is no --sink" "$attn" grad $qkv --do do.npy --dsink n.npy
expect 2 "do: shape (40, 2, 16), expected (40, 4, 16)" "$attn" grad $qkv --do k.npy --dq n.npy
expect 2 "lse: lse4.npy: shape" sh -c "'$attn' random --shape 3 -o lse4.npy && '$attn' grad $qkv --do do.npy --o o.npy --lse lse4.npy --dq n.npy"

# ------------------------------------------------------------------------------------------------
# Bad input: status 2, words that name what and where, and no file

printf 'precious' >keep.npy
cp keep.npy keep.orig
bad() {
    text=$1
    shift
    expect 2 "$text" "$attn" run "$@" -o keep.npy --lse n.npy
    same keep.npy keep.orig
    absent n.npy
}
random --shape 40,3,16 -o h3.npy
random --shape 39,2,16 -o s39.npy
random --shape 40,2,8 -o d8.npy
random --shape 40,16 -o flat.npy
random --shape 40,4,16 --dtype i32 -o int.npy
random --shape 40,4,16 --dtype f64 -o f64.npy
random --shape 40,40 --dtype i32 -o mask32.npy
bad "q: missing" --k k.npy --v v.npy
bad "v: missing" --q q.npy --k k.npy
bad "none.npy: cannot open" --q none.npy --k k.npy --v v.npy
bad "is a folder" --q / --k k.npy --v v.npy
bad "v: 2 heads, k has 3" --q q.npy --k h3.npy --v v.npy
bad "heads_q" --q q.npy --k h3.npy --v h3.npy
bad "v: 39 rows, k has 40" --q q.npy --k k.npy --v s39.npy
bad "k: head dim 8, q has 16" --q q.npy --k d8.npy --v v.npy
bad "q: flat.npy: shape (40, 16), expected 3 dims" --q flat.npy --k k.npy --v v.npy
bad "q: int.npy: dtype i32" --q int.npy --k k.npy --v v.npy
bad "f64" --q f64.npy --k f64.npy --v f64.npy --backend cpu
bad "mask: mask32.npy: dtype i32" $qkv --mask mask32.npy
bad "mask" $qkv --mask q.npy
bad "bias: shape (40, 4, 16), expected one that broadcasts" $qkv --bias q.npy
bad "sink: shape (3,), expected (4,)" $qkv --sink 1,2,3
bad "alibi: shape (2,), expected (4,)" $qkv --alibi 1,2
bad "cu-seqlens-kv" $qkv --cu-seqlens-q 0,40 --cu-seqlens-kv 0,20,40
bad "cu_seqlens" $qkv --cu-seqlens-q 0,50 --cu-seqlens-kv 0,40
bad "cu_seqlens" $qkv --cu-seqlens-q 0,30,20,40 --cu-seqlens-kv 0,10,20,40
bad "expected a 32-bit integer" $qkv --seqused-kv 1.5
bad "seqused" $qkv --seqused-kv 41
bad "" $qkv --isa avx512_bf16 --backend cuda
printf '\223NUMPY\001\000' >short.npy
bad "short.npy" --q short.npy --k k.npy --v v.npy
head -c 1000 q.npy >cut.npy
bad "cut.npy" --q cut.npy --k k.npy --v v.npy
: >empty.npy
bad "empty.npy" --q empty.npy --k k.npy --v v.npy
# A header that claims far more than there is.
sed 's/(40, 4, 16)/(99999999999, 4, 16)/' q.npy >huge.npy
bad "huge.npy" --q huge.npy --k k.npy --v v.npy
printf '\377\377\377\377\377\377\377\177{}' >huge.safetensors
bad "huge.safetensors" --q huge.safetensors --k k.npy --v v.npy
printf '\002\000\000\000\000\000\000\000{}' >none.safetensors
bad "none.safetensors" -i none.safetensors
bad "expected a .safetensors" -i q.npy
expect 2 "expected a name ending in .npy" "$attn" run $qkv -o o.txt
expect 2 "cannot write into" "$attn" run $qkv -o missing/o.npy
expect 2 "nothing to write" "$attn" run $qkv
expect 2 "o.npy" "$attn" run $qkv -o o.npy --lse o.npy
expect 2 "" "$attn" run $qkv -o /dev/full
# All outputs or none: the second cannot be made.
mkdir folder.npy
cp o.npy before.npy
expect 2 "folder.npy" "$attn" run $qkv --causal -o o.npy --lse folder.npy
same o.npy before.npy
checks=$((checks + 1))
[ -z "$(find . -name '*.partial*' -o -name '.*tmp*' -o -name '*~')" ] || fail "temporary files were left"

# ------------------------------------------------------------------------------------------------
# Check, view, bench, demo

expect 0 "0 failed" "$attn" check
expect 0 "0 failed" "$attn" check $qkv --causal --backward
expect 0 '"ok": true' "$attn" check --seqlen 20 --heads 1 --json
expect 2 "f64" "$attn" check --dtype f64
expect 2 "nothing was compared" env ATTN_ISA=scalar "$attn" check --isa avx2 --seqlen 8

random --shape 20,2,16 -o s.npy
expect 0 "lse agrees" "$attn" view map --q s.npy --k s.npy --head 1 --causal --sink 1,2 --softcap 3 --alibi standard -o map.svg
expect 0 "lse agrees" "$attn" view map --q s.npy --k s.npy --window 3,1 --bias random --mask random -o map.png
expect 0 "lse agrees" "$attn" view map --q s.npy --k s.npy --dtype bf16 --linear -o map.png
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 '<&"'; do echo "$i"; done >tokens.txt
expect 0 "" "$attn" view map --q s.npy --k s.npy --tokens tokens.txt -o tokens.svg
grep -qF '&lt;&amp;' tokens.svg || fail "a token was not escaped"
tail -n 1 tokens.svg | grep -qF '</svg>' || fail "tokens.svg does not end"
head -c 4 map.png | grep -q PNG || fail "map.png is no PNG"
expect 2 "lines, the map has 20" "$attn" view map --q s.npy --k s.npy --tokens out.txt -o n.svg
expect 2 "counted from 0" "$attn" view map --q s.npy --k s.npy --head 2 -o n.svg
expect 2 "at most 4096" "$attn" view map --seqlen 1,5000 --heads 1 --dim 1 -o n.svg
expect 2 "use .png" "$attn" view map --seqlen 600 --heads 1 --dim 1 -o n.svg
expect 2 "map or mask" "$attn" view -o n.svg
expect 2 ".svg or" "$attn" view map --q s.npy --k s.npy -o n.gif
expect 0 "tiles" "$attn" view mask --seqlen 1000,3000 --window 500,0 -o mask.svg
expect 0 "tiles" "$attn" view mask --seqlen 100000 --causal -o mask.png
absent n.svg

printf 'tiny s=16,32 h=2 d=16 # a comment\n\nback s=32 h=2/1 d=16/8 dtype=bf16 causal backward\ndec s=64 sq=1 window=8,0\n' >tiny.txt
expect 0 "tiny/16" "$attn" bench tiny.txt --samples 3 --warmup 1 --json ours.json --svg speed.svg
sed 's/"name": "[^"]*"/"name": "a peer"/' ours.json >peer.json
expect 0 "1.00x" "$attn" bench --from ours.json,ours.json --peers peer.json,peer.json --svg speed.svg
expect 0 "a peer" "$attn" bench --from ours.json --peers peer.json --json pooled.json
expect 2 "no case to report on" "$attn" bench --from ours.json --series nothing
expect 0 "back/32" "$attn" bench --from ours.json --series back
checks=$((checks + 1))
! grep -qF "tiny/16" out.txt || fail "--series does not choose"
expect 2 "expected key=value" sh -c "echo 'x y' >bad.txt; '$attn' bench bad.txt --no-rates"
expect 2 "bad.txt:2" sh -c "printf '\nx s=1 d=0.5\n' >bad.txt; '$attn' bench bad.txt --no-rates"
expect 2 "s=N" sh -c "echo 'x d=64' >bad.txt; '$attn' bench bad.txt --no-rates"
expect 2 "s=8,,9" sh -c "echo 'x s=8,,9' >bad.txt; '$attn' bench bad.txt --no-rates"
expect 2 "s=8," sh -c "echo 'x s=8,' >bad.txt; '$attn' bench bad.txt --no-rates"
expect 2 "the shape files have none" sh -c ": >bad.txt; '$attn' bench bad.txt --no-rates"
expect 2 "empty.npy:1: no JSON" "$attn" bench --from empty.npy
expect 2 "no JSON" "$attn" bench --from tiny.txt
expect 2 "expected an object" sh -c "echo '[]' >bad.json; '$attn' bench --from bad.json"
expect 2 "give shape files" "$attn" bench
expect 2 "no case to measure" "$attn" bench tiny.txt --series nothing --no-rates

expect 0 "attention map" "$attn" demo --data "$source/examples/minilm"
# A changed byte in the first layer's keys: the outputs no longer fit, and the command says so.
mkdir spoilt
cp "$source/examples/minilm/minilm.safetensors" "$source/examples/minilm/tokens.txt" spoilt
size=$(wc -c <spoilt/minilm.safetensors)
data=$((6 * 4 * 78 * 12 * 32 * 4))
printf '\101' | dd of=spoilt/minilm.safetensors bs=1 seek=$((size - data + 7)) conv=notrunc 2>/dev/null
expect 1 "WRONG" "$attn" demo --data spoilt
expect 2 "nowhere/minilm.safetensors" "$attn" demo --data nowhere

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
