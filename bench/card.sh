#!/usr/bin/env bash
# Makes the results in bench/results/h200 or h100. Run it on an idle machine with such a card.
#
#     bench/card.sh FOLDER [WHAT]...
#
# WHAT: kernels (three hours; on four cards 50 minutes), checks (5 minutes), sanitizers (2, a part of checks), studies
# (11), engine (7), runs (4), pair (2; needs two GPUs), tests (8), cheats (4), wall (3), or the name of a kernel, a study
# or a part of engine: clock, twins, dirty.
# Default: kernels, checks, studies and tests. `bench/studies.sh` runs the studies. `runs` are four runs of unchanged
# code for `bench/pairs.py`: take them on several machines or days. `cheats` tries every way to cheat that is known,
# `wall` what the default bench takes.
#
# A kernel whose file in FOLDER is complete is left as it is: move the file away to measure it again. One whose file an
# earlier call left incomplete goes first, from there on; where it cannot (other sources, another machine), it begins
# anew, and FOLDER/NAME.old.json keeps the earlier file. DEVICE=cpu tries the kernels and studies without a card.
#
# Where a machine is lent for some minutes at a time: LIMIT=560 starts nothing that is estimated to end after 560 s, and
# the last line names what is left to do. A kernel that takes longer alone is stopped then, and the next call goes on
# with it. PACK=FILE.tgz keeps all of FOLDER in one file, written anew after each part.
#
# Where the host has several cards of one kind: GPUS="0 1 2 3" runs as many parts at a time, the longest first, each on
# one of these cards. Give each card 16 processors.
set -uo pipefail
out=${1:?give a folder for the results}
shift
mkdir -p "$out/checks" "$out/studies" "$out/engine" "$out/pairs"
lab="${PYTHON:-python3} -m cudalab"
started=$(date +%s)

declare -A seconds=(  # estimated for an H200, three to eight processes, four cards of one host at work; other parts: 120
    [gelu]=280 [gelu_tanh]=230 [gelu_backward]=245 [bias_gelu]=245 [softmax]=900 [layernorm]=640 [sum]=155 [transpose]=200
    [matmul]=145 [add2d]=250 [plus_one]=160 [cross_entropy]=1250
    [cross_entropy_backward]=900 [softmax_backward]=1500 [layernorm_backward]=850 [rmsnorm_backward]=950
    [swiglu]=400 [quantize_fp8]=300 [quantize_int8]=450 [rope]=510 [rope_interleaved]=510
    [checks]=300 [sanitizers]=120 [tests]=480 [cheats]=240 [wall]=170 [clock]=180 [twins]=190 [dirty]=80 [runs]=240
)
while read -r estimate _ study _; do seconds[${study%,}]=$estimate; done < <(bash "$(dirname "$0")/studies.sh" | sed 1d)
seconds[studies]=${seconds[all]}
kernels=(
    gelu gelu_tanh gelu_backward bias_gelu swiglu softmax softmax_backward layernorm layernorm_backward
    rmsnorm rmsnorm_backward fused_add_rmsnorm cross_entropy cross_entropy_backward quantize_fp8 quantize_int8
    rope rope_interleaved sum transpose matmul add2d plus_one
)
queue=$(mktemp -d)
trap 'rm -rf "$queue"' EXIT

is_kernel() { [[ " ${kernels[*]} " == *" $1 "* ]]; }

# NAME true (false): whether the kernel's file says that it is complete (incomplete).
is_complete() { grep -qE "\"complete\": ?$2" "$out/$1.json" 2>/dev/null; }

# Seconds until LIMIT.
rest() { echo $((started + LIMIT - $(date +%s))); }

# COMMAND...: ended at LIMIT. Without one Ctrl-C reaches the command, which it does not below `timeout`.
bounded() {
    if [ -z "${LIMIT:-}" ]; then "$@"; else timeout -k 20 "$(($(rest) > 1 ? $(rest) : 1))" "$@"; fi
}

# NAME: keeps it for the last line.
left() { echo "$1" >>"$queue/left"; }

# NAME: whether it is estimated to end before LIMIT, or is a kernel that needs several calls and has a minute in this one.
fits() {
    [ -n "${LIMIT:-}" ] || return 0
    local need=${seconds[$1]:-120}
    if is_complete "$1" false || { is_kernel "$1" && ((need > LIMIT)); }; then need=60; fi
    ((need <= $(rest))) && return
    left "$1"
    return 1
}

pack() {
    [ -z "${PACK:-}" ] ||
        flock "$queue/pack" sh -c 'tar -C "$1" --warning=no-file-changed -czf "$2.new" . ; mv "$2.new" "$2"' - "$out" "$PACK"
}

log() { echo "$(($(date +%s) - started)) s: $1, exit code $2"; }

# NAME FILE COMMAND...: writes FILE.json, and the command's output to FILE.txt.
take() {
    local name=$1 file=$2
    shift 2
    "$@" -q -o "$out/$file.json" >"$out/$file.txt" 2>&1
    log "$name" $?
}

# gelu, add2d and plus_one run on all backends, and gelu in graphs. The other kernels skip backends that no
# table compares them with.
kernel() {
    local options=(--skip cupy_raw,cupy_fuse,cupy_elementwise,pycuda_elementwise)
    local sizes=small,large,xlarge modes=launch,api
    case $1 in
        gelu) options=() modes=launch,graph,api ;;
        plus_one) options=() ;;
        add2d) options=() sizes=tiny,small,odd,large,xlarge ;;
        softmax | softmax_backward | rmsnorm) sizes=$sizes,short,long,longest ;;
        layernorm_backward | rmsnorm_backward) sizes=$sizes,short,long ;;
        layernorm | fused_add_rmsnorm | quantize_*) sizes=$sizes,long ;;
        cross_entropy) sizes=$sizes,short,odd,longest,few ;;
        cross_entropy_backward) sizes=$sizes,short,odd ;;
        rope*) sizes=tiny,$sizes,odd,keys ;;
    esac
    local bench=(bounded $lab bench "$1" --device "${DEVICE:-cuda}") file=$out/$1.json old=$out/$1.old.json
    if is_complete "$1" false; then
        "${bench[@]}" --resume "$file" -q >"$queue/$1" 2>&1
        log "$1, resumed" $?
        cat "$queue/$1" >>"$out/$1.txt"
        grep "cannot resume" "$queue/$1" || return 0
    fi
    [ ! -e "$file" ] || mv --backup=numbered "$file" "$old"
    take "$1" "$1" "${bench[@]}" --sizes $sizes --dtypes all --modes $modes --budget 0.1 "${options[@]}"
    [ -e "$file" ] || [ ! -e "$old" ] || mv "$old" "$file"  # nothing came of it
}

checks() {
    take "gelu, every value of 16 bits" checks/gelu $lab check gelu
    take "gelu, all of float32" checks/gelu_exhaustive \
        $lab check gelu --exhaustive --dtypes float32 --only pycuda:gelu_vec,torch_native
    sanitizers
}

sanitizers() {
    for k in "${kernels[@]}"; do sanitize "$k" & done  # in parallel: nothing is timed
    wait
}

# One shape whose rows are a multiple of 16 bytes, and one whose rows are not.
sanitize() {
    local shapes=4096,4097
    case $1 in
        add2d | bias_gelu) shapes=64x128,33x131 ;;
        softmax* | layernorm | *rmsnorm | cross_entropy* | quantize_*) shapes=9x128,3x1023 ;;
        sum) shapes=32776,32777 ;;
        transpose) shapes=136x200,1528x712,129x127 ;;
        matmul) shapes=128x16x128,33x129x65 ;;
        rope*) shapes=9x7x16,3x9x21 ;;
    esac
    take "$1 under the sanitizers" "checks/sanitize_$1" \
        $lab check "$1" --sanitize --sizes $shapes --dtypes all --only 'pycuda:*'
}

# NAME: of one study, all, or pair.
studies() {
    bash "$(dirname "$0")/studies.sh" "$out/studies" "$1"
    log "studies, $1" $?
}

# What the engine's own times are worth: by another clock, against themselves, with the lines of another program in L2.
clock() {
    ${PYTHON:-python3} bench/second_clock.py "$out/engine/cupti.json" >"$out/engine/cupti.txt" 2>&1
    log "CUPTI beside events" $?
}

twins() {
    ${PYTHON:-python3} bench/aa.py "$out/engine/aa.json" --seconds 150 >"$out/engine/aa.txt" 2>&1
    log "entries against themselves" $?
}

dirty() {
    local kinds=(--sizes small,large,xlarge --modes launch --only pycuda,torch_native,torch_compile,triton)
    take "gelu, dirty lines" engine/gelu_dirty $lab bench gelu "${kinds[@]}" --flush dirty
    take "gelu, clean lines" engine/gelu_clean $lab bench gelu "${kinds[@]}" --flush clean
}

runs() {
    for _ in 1 2 3 4; do
        take "a run for pairs" "pairs/$(date -u +%Y%m%dT%H%M%S)" \
            $lab bench gelu softmax add2d --sizes large,xlarge --only pycuda,torch_native --modes launch
    done
}

cheats() {
    ${PYTHON:-python3} tests/support/run_cheats.py --device cuda >"$out/engine/cheats.txt" 2>&1
    log "cheats" $?
}

# Twice: the first run fills the caches of the compilers.
wall() {
    for run in cold warm; do
        take "the default bench, $run caches" "engine/wall_$run" \
            $lab bench gelu add2d plus_one --size small,large
        take "gelu, small and large, $run caches" "engine/wall_gelu_$run" $lab bench gelu --sizes small,large
    done
}

tests() {
    CUDALAB_REQUIRE=cuda ${PYTHON:-python3} -m pytest -m gpu -q >"$out/tests.txt" 2>&1
    log tests $?
    tail -5 "$out/tests.txt"
}

# Names of parts, each of which ends by itself.
parts() {
    for one in $1; do
        case $one in
            kernels) printf '%s\n' "${kernels[@]}" ;;
            engine) printf '%s\n' clock twins dirty ;;
            *) echo "$one" ;;
        esac
    done
}

# NAME: one part.
part() {
    if is_complete "$1" true; then
        echo "$1 is left as it is: $out/$1.json is complete; move it away to measure it again"
        return
    fi
    fits "$1" || return
    case $1 in
        checks) checks ;;
        sanitizers) sanitizers ;;
        studies) studies all ;;
        pair) studies pair ;;
        clock | twins | dirty | runs | tests | cheats | wall) "$1" ;;
        *) if is_kernel "$1"; then kernel "$1"; else studies "$1"; fi ;;
    esac
    ! is_complete "$1" false || left "$1"
    pack
}

# Takes parts from the queue, one after another, until it is empty.
work() {
    local one
    while one=$(flock "$queue/next" sed -n -i -e '1w /dev/stdout' -e '2,$p' "$queue/parts") && [ -n "$one" ]; do
        part "$one"
    done
}

for what in "${@:-kernels checks studies tests}"; do
    parts "$what"
done >"$queue/parts"
known=" ${!seconds[*]} ${kernels[*]} pair "
while read -r one; do
    [[ $known == *" $one "* ]] && continue
    echo "no $one here; give kernels, checks, sanitizers, studies, engine, runs, pair, tests, a kernel or a study" >&2
    exit 2
done <"$queue/parts"

# What an earlier call left incomplete goes first; on several cards, the longest of the others.
while read -r one; do
    estimate=${GPUS:+${seconds[$one]:-120}}
    ! is_complete "$one" false || estimate=$((1000000 + ${estimate:-0}))
    echo "${estimate:-0} $one"
done <"$queue/parts" | sort -s -k1,1rn | cut -d' ' -f2 >"$queue/sorted"
mv "$queue/sorted" "$queue/parts"
if [ -z "${GPUS:-}" ]; then
    work
else
    for gpu in $GPUS; do CUDA_VISIBLE_DEVICES=$gpu work & done
    wait
fi
[ ! -e "$queue/left" ] || echo "left to do:" $(<"$queue/left")
