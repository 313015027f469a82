#!/usr/bin/env bash
# Makes the studies of bench/results/h200/studies. Run it on an idle machine with an H200.
#
#     bench/studies.sh FOLDER [STUDY]...
#
# Default: all that need one GPU; `pair`: those that need two. Without a FOLDER it lists the studies and their seconds.
# Each study writes FOLDER/NAME.json and NAME.txt, so what is left can be run later. Exit code: the worst of the
# studies' own, 64 for a name that is no study.
set -uo pipefail

declare -A seconds=(  # estimated for an H200, one process, with starting Python and loading torch
    [graphs]=15 [jit-gelu]=35 [training-graph]=15 [profile]=20 [timing]=27 [cpu-vs-gpu]=29 [data-values]=42 [clocks]=55
    [zero-grad]=20 [conv-bias]=16 [debug-apis]=20 [fused-modules]=22 [checkpoint]=27 [cudnn-benchmark]=48
    [dataloader]=52 [batch-size]=32 [energy]=58 [ddp]=77 [load-balance]=36
    [transformer]=130
)
one=(graphs jit-gelu training-graph profile timing cpu-vs-gpu data-values clocks zero-grad conv-bias debug-apis
    fused-modules checkpoint cudnn-benchmark dataloader batch-size energy transformer)
pair=(ddp load-balance)

total() {
    local sum=0
    for s in "$@"; do ((sum += seconds[$s])); done
    echo "$sum"
}

if [ $# = 0 ]; then
    echo "give a folder for the results, and studies (default: all that need one GPU; pair: those that need two)"
    for s in "${one[@]}"; do printf '%6d s  %s\n' "${seconds[$s]}" "$s"; done
    printf '%6d s  all of these\n' "$(total "${one[@]}")"
    for s in "${pair[@]}"; do printf '%6d s  %s, on two GPUs\n' "${seconds[$s]}" "$s"; done
    exit 64
fi
out=$1
shift

chosen=()
for s in "${@:-all}"; do
    case $s in
        all) chosen+=("${one[@]}") ;;
        pair) chosen+=("${pair[@]}") ;;
        *)
            if [ -z "${seconds[$s]:-}" ]; then
                echo "no study $s; give all, pair or ${one[*]} ${pair[*]}" >&2
                exit 64
            fi
            chosen+=("$s")
            ;;
    esac
done

mkdir -p "$out"
worst=0
echo "about $(total "${chosen[@]}") s"
for s in "${chosen[@]}"; do
    before=$SECONDS
    ${PYTHON:-python3} -m cudalab study "$s" --device "${DEVICE:-cuda}" --budget 0.4 -q \
        -o "$out/$s.json" >"$out/$s.txt" 2>&1
    code=$?
    ((code > worst)) && worst=$code
    echo "$s: $((SECONDS - before)) s of about ${seconds[$s]}, exit code $code"
done
exit $worst
