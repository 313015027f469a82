#!/usr/bin/env bash
# What bench/results/h200 was made with, on a machine with one H200 that does nothing else meanwhile.
#
#     bench/h200.sh FOLDER [WHAT]...
#
# WHAT: kernels (14 minutes), checks (5), sanitizers (2 of these 5), studies (8), pair (2; two GPUs), tests (4), or the
# name of a kernel or a study. None: all but pair. Each file is written when it is whole, so that what was finished is
# there whatever happens.
set -uo pipefail
out=${1:?give a folder for the results}
shift
mkdir -p "$out/checks" "$out/studies"
lab="${PYTHON:-python3} -m cudalab"
begun=$(date +%s)

said() { echo "$(($(date +%s) - begun)) s: $1, exit code $2"; }

# NAME FILE COMMAND...: what it printed goes beside its file.
take() {
    local name=$1 file=$2
    shift 2
    "$@" -q -o "$out/$file.json" >"$out/$file.txt" 2>&1
    said "$name" $?
}

# Results of all backends in every mode are gelu's alone: of the others those that a row is compared with.
kernel() {
    local few=(--modes launch --skip cupy_raw,cupy_fuse,cupy_elementwise,pycuda_elementwise)
    local sizes=small,large,xlarge
    case $1 in
        gelu) few=(--modes launch,graph,api) ;;
        add2d) few=(--modes launch,graph) sizes=tiny,small,odd,large,xlarge ;;
        plus_one) few=(--modes launch,graph) ;;
        softmax) sizes=$sizes,short,long,longest ;;
        layernorm) sizes=$sizes,long ;;
    esac
    take "$1" "$1" $lab bench "$1" --sizes $sizes --dtypes all --budget 0.1 "${few[@]}"
}

kernels=(gelu gelu_tanh gelu_backward bias_gelu softmax layernorm sum transpose matmul add2d plus_one)
studies=(graphs jit-gelu training-graph profile timing cpu-vs-gpu data-values clocks zero-grad conv-bias debug-apis
    fused-modules checkpoint cudnn-benchmark dataloader batch-size)
pair=(ddp load-balance)

checks() {
    take "gelu, every value of 16 bits" checks/gelu $lab check gelu
    take "gelu, all of float32" checks/gelu_exhaustive \
        $lab check gelu --exhaustive --dtypes float32 --only pycuda:gelu_vec,torch_native
    sanitizers
}

sanitizers() {
    for k in "${kernels[@]}"; do sanitized "$k" & done  # nothing is timed here
    wait
}

# One shape whose rows are whole in accesses of 16 bytes, and one whose rows are not.
sanitized() {
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

study() { take "$1" "studies/$1" $lab study "$1" --device cuda --budget 0.4; }

tests() {
    CUDALAB_REQUIRE=cuda ${PYTHON:-python3} -m pytest -m gpu -q >"$out/tests.txt" 2>&1
    said tests $?
    tail -5 "$out/tests.txt"
}

for what in "${@:-kernels checks studies tests}"; do
    for one in $what; do
        case " kernels checks sanitizers studies pair tests ${kernels[*]} ${studies[*]} ${pair[*]} " in
            *" $one "*) ;;
            *) echo "no $one here; give kernels, checks, sanitizers, studies, pair, tests, a kernel or a study" >&2; exit 2 ;;
        esac
        case $one in
            kernels) for k in "${kernels[@]}"; do kernel "$k"; done ;;
            checks) checks ;;
            sanitizers) sanitizers ;;
            studies) for s in "${studies[@]}"; do study "$s"; done ;;
            pair) for s in "${pair[@]}"; do study "$s"; done ;;
            tests) tests ;;
            *) if [[ " ${kernels[*]} " == *" $one "* ]]; then kernel "$one"; else study "$one"; fi ;;
        esac
    done
done
