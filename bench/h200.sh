#!/usr/bin/env bash
# Makes the results in bench/results/h200. Run it on an idle machine with one H200.
#
#     bench/h200.sh FOLDER [WHAT]...
#
# WHAT: kernels (14 minutes), checks (5), sanitizers (2, a part of checks), studies (8), pair (2; needs two GPUs),
# tests (4), or the name of a kernel or a study. Default: all but pair. A file is written when it is complete, so an
# interrupted run keeps what it finished. `bench/studies.sh` runs the studies.
set -uo pipefail
out=${1:?give a folder for the results}
shift
mkdir -p "$out/checks" "$out/studies"
lab="${PYTHON:-python3} -m cudalab"
started=$(date +%s)

log() { echo "$(($(date +%s) - started)) s: $1, exit code $2"; }

# NAME FILE COMMAND...: writes FILE.json, and the command's output to FILE.txt.
take() {
    local name=$1 file=$2
    shift 2
    "$@" -q -o "$out/$file.json" >"$out/$file.txt" 2>&1
    log "$name" $?
}

# gelu, add2d and plus_one run on all backends. The other kernels skip backends that no table compares them with.
kernel() {
    local options=(--skip cupy_raw,cupy_fuse,cupy_elementwise,pycuda_elementwise)
    local sizes=small,large,xlarge
    case $1 in
        gelu | plus_one) options=() ;;
        add2d) options=() sizes=tiny,small,odd,large,xlarge ;;
        softmax) sizes=$sizes,short,long,longest ;;
        layernorm) sizes=$sizes,long ;;
    esac
    take "$1" "$1" $lab bench "$1" --sizes $sizes --dtypes all --modes launch,graph,api --budget 0.1 \
        "${options[@]}"
}

kernels=(gelu gelu_tanh gelu_backward bias_gelu softmax layernorm sum transpose matmul add2d plus_one)

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
        softmax | layernorm) shapes=9x128,3x1023 ;;
        sum) shapes=32776,32777 ;;
        transpose) shapes=136x200,1528x712,129x127 ;;
        matmul) shapes=128x16x128,33x129x65 ;;
    esac
    take "$1 under the sanitizers" "checks/sanitize_$1" \
        $lab check "$1" --sanitize --sizes $shapes --dtypes all --only 'pycuda:*'
}

# NAME: of one study, all, or pair.
studies() {
    bash "$(dirname "$0")/studies.sh" "$out/studies" "$1"
    local code=$?
    log "studies, $1" $code
    [ $code != 64 ] && return
    echo "no $1 here; give kernels, checks, sanitizers, studies, pair, tests, a kernel or a study" >&2
    exit 2
}

tests() {
    CUDALAB_REQUIRE=cuda ${PYTHON:-python3} -m pytest -m gpu -q >"$out/tests.txt" 2>&1
    log tests $?
    tail -5 "$out/tests.txt"
}

for what in "${@:-kernels checks studies tests}"; do
    for one in $what; do
        case $one in
            kernels) for k in "${kernels[@]}"; do kernel "$k"; done ;;
            checks) checks ;;
            sanitizers) sanitizers ;;
            studies) studies all ;;
            pair) studies pair ;;
            tests) tests ;;
            *) if [[ " ${kernels[*]} " == *" $one "* ]]; then kernel "$one"; else studies "$one"; fi ;;
        esac
    done
done
