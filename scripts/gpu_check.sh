#!/usr/bin/env bash
# Measures on one GPU what the project can only claim without one, in under
# 8 minutes, into at most 8 files of together at most 8 MiB:
#
#     scripts/gpu_check.sh OUT        a folder that does not exist yet,
#                                     such as testdata/gpu/rtx-4090
#
# It needs bash, Python 3.9 with PyTorch, and a GPU that is yours to use; where
# PyTorch or the GPU is missing it says which, writes nothing and exits with 2.
# PYTHON names the interpreter (python3), DEVICE the device (cuda:0), FLOODMARK
# the program (floodmark on PATH, else bin/floodmark); without the program the
# parts that need it are NOT RUN. SIZE=small is for trying the script.
#
# In OUT: environment.json, lab.jsonl (three sizes, with and without training),
# readings.jsonl (a transformer by a protocol of its own, under each allocator
# setting), snapshots.tar.gz, floodmark.json (the same program under measure, the
# same model predicted, and both compared), log.txt.
#
# Statements of docs/checklist.md that are shown here and nowhere else:
# checklist 67: two readings of one checkpoint are equal (gpu_check_model.py, twice)
# checklist 76: synchronize waits for a device whose second stream is at work (case second_stream)
# checklist 89: outputs live until the last reading of their phase (the peak of forward holds the logits)
# checklist 116: results are made here, in the user's environment, and none is shipped as if it were
# checklist 172: what is free is read after the context was created (environment.json)
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
device=${DEVICE:-cuda:0}
size=${SIZE:-middle}
most_seconds=450
most_bytes=$((8 << 20))

[ $# -eq 1 ] || { echo "usage: $0 OUT" >&2; exit 64; }
out=$1
if [ -e "$out" ] || [ -L "$out" ]; then
	echo "$out exists, and is never overwritten" >&2
	exit 1
fi
if ! command -v "$python" >/dev/null; then
	echo "PyTorch is missing: there is no $python" >&2
	exit 2
fi
timeout 100 "$python" "$here/gpu_check_report.py" guard </dev/null
case $? in
0) ;;
2) exit 2 ;;
*) echo "PyTorch is missing: it cannot be loaded by $python" >&2; exit 2 ;;
esac

mkdir -p "$out" || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/model" "$scratch/lab"
log=$out/log.txt
: >"$log" || exit 1
faults=0

say() { printf '%4d s  %s\n' "$SECONDS" "$*" | tee -a "$log"; }

# part NAME SECONDS COMMAND...: runs one part within its time, and goes on when
# it fails. A part for which no time is left is NOT RUN.
part() {
	local name=$1 limit=$2 status
	shift 2
	local left=$((most_seconds - SECONDS))
	if [ $left -lt 10 ]; then
		say "NOT RUN: $name, no time is left"
		faults=$((faults + 1))
		return 1
	fi
	[ "$limit" -lt $left ] || limit=$left
	timeout -k 5 "$limit" "$@" </dev/null >"$scratch/output" 2>&1
	status=$?
	if [ $status -eq 0 ]; then
		say "ok       $name"
	else
		say "FAILED   $name, status $status"
		tail -n 15 "$scratch/output" | cut -c 1-300 | tee -a "$log"
		faults=$((faults + 1))
	fi
	return $status
}

# model NAME [VARIABLE=VALUE] ARGUMENT...: one case of the transformer, in a
# process of its own.
model() {
	local name=$1
	shift
	local settings=()
	while [[ ${1:-} == *=* && ${1:-} != --* ]]; do
		settings+=("$1")
		shift
	done
	part "model $name" 60 env "${settings[@]}" "$python" "$here/gpu_check_model.py" --case "$name" --out "$scratch/model" --device "$device" --size "$size" --snapshot "$@"
}

# lab NAME ARGUMENT...: the lab, by the Python file alone.
lab() {
	local name=$1
	shift
	mkdir "$scratch/lab/$name"
	part "lab $name" 40 env FLOODMARK_PROBE_OUT="$scratch/lab/$name" "$python" "$here/../internal/probe/floodmark_probe.py" lab --device "$device" --dtype float32 --warmup 3 --repeats 5 "$@"
}

part environment 60 "$python" "$here/gpu_check_report.py" environment "$device" "$out/environment.json"

for train in '' --train; do
	lab "small$train" --batch 1 --context 16 --width 64 $train
	lab "medium$train" --batch 2 --context 128 --width 1024 $train
	lab "large$train" --batch 8 --context 512 --width 2048 $train
done

model training --train
model training_autocast --train --dtype autocast
model inference
model inference_autocast --dtype autocast
# PYTORCH_CUDA_ALLOC_CONF is understood by every version, old and new.
model expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --train
model max_split PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 --train
model roundup PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:8 --train
# A fraction of the card that leaves no room for a cache, so that the allocator
# gives blocks back and tries again; if it is too little, a larger one.
before=$faults
for share in 0.3 0.6 0.9; do
	fraction=$("$python" "$here/gpu_check_report.py" fraction "$scratch/model" training "$share") || break
	if model "garbage_collection_$share" PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.6 --train --fraction "$fraction"; then
		faults=$before
		break
	fi
done
# One deliberate out-of-memory: half of what the same training needs. Its status
# is 3.
before=$faults
half=$("$python" "$here/gpu_check_report.py" fraction "$scratch/model" training -0.5) || half=0.01
model out_of_memory --train --fraction "$half"
if grep -qs '"failed"' "$scratch/model/out_of_memory.jsonl"; then
	faults=$before
	say 'ok       out_of_memory: it did, as it should'
else
	say 'FAILED   out_of_memory: nothing ran out'
fi
model second_stream --train --second-stream
model graph --graph

"$python" "$here/gpu_check_report.py" gather "$scratch/model" "$out" || faults=$((faults + 1))
cat "$scratch"/lab/*/*.jsonl >"$out/lab.jsonl" 2>/dev/null

# From here on the program is needed.
floodmark=${FLOODMARK:-$(command -v floodmark || echo "$here/../bin/floodmark")}
if [ ! -x "$floodmark" ]; then
	say 'NOT RUN: measure, estimate, replay, build the program (go build -o bin/floodmark ./cmd/floodmark) or name it in FLOODMARK'
else
	program=("$python" "$here/gpu_check_model.py" --out "$scratch/again" --device "$device" --size "$size" --train)
	mkdir "$scratch/again" "$scratch/records"
	records=$scratch/records
	part 'floodmark environment' 60 "$floodmark" environment --device "$device" --python "$python" --output "$records/environment.json"
	part 'floodmark environment --init' 60 "$floodmark" environment --device "$device" --init --python "$python" --output "$records/environment_init.json"
	part 'measure -- program' 60 "$floodmark" measure --output "$records/located.json" -- "${program[@]}" --case located
	part 'measure --no-phases -- program' 60 "$floodmark" measure --no-phases --output "$records/verified.json" -- "${program[@]}" --case verified
	part 'measure --device' 60 "$floodmark" measure --device "$device" --batch 2 --context 128 --width 1024 --dtype float32 --warmup 3 --repeats 5 --python "$python" --output "$records/lab.json"
	mkdir "$scratch/config"
	"$python" -c "
import json, os, sys
with open(sys.argv[1]) as f: first = json.loads(f.readline())
with open(os.path.join(sys.argv[2], 'config.json'), 'x') as f: json.dump(first['model'], f)
" "$scratch/model/training.jsonl" "$scratch/config"
	length=(--sequences 4 --context 512)
	[ "$size" = middle ] || length=(--sequences 2 --context 64)
	part 'estimate training' 30 "$floodmark" estimate "$scratch/config" --train "${length[@]/--sequences/--micro-batch}" --precision fp32-params-fp32-grads-fp32-moments --optimizer adamw --weights-format fp32 --output "$records/training.json"
	part 'estimate training, autocast' 30 "$floodmark" estimate "$scratch/config" --train "${length[@]/--sequences/--micro-batch}" --precision fp32-params-autocast --autocast bf16 --optimizer adamw --weights-format fp32 --output "$records/training_autocast.json"
	mkdir "$scratch/unpacked" && tar -xzf "$out/snapshots.tar.gz" -C "$scratch/unpacked"
	for snapshot in "$scratch"/unpacked/*.json; do
		[ -e "$snapshot" ] && [ $SECONDS -lt $most_seconds ] || continue
		name=$(basename "$snapshot" .snapshot.json)
		# 4 says that the certificate does not hold: that is a finding, not a fault of this script.
		timeout 20 "$floodmark" replay "$snapshot" --output "$records/replay_$name.json" >/dev/null 2>>"$log" </dev/null
		say "replay $name ended with $?"
	done
	"$python" -c "
import json, os, sys
records, estimates = {}, {}
for name in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], name)) as f: r = json.load(f)
    (estimates if r['kind'] == 'estimate' else records)[name[:-5]] = r
with open(sys.argv[2], 'x') as f: json.dump({'records': records, 'estimates': estimates}, f)
" "$records" "$out/floodmark.json" || faults=$((faults + 1))
	part 'predicted against measured' 30 "$python" "$here/gpu_check_report.py" compare "$out"
	cat "$scratch/output" >>"$log"
fi

files=$(find "$out" -type f | wc -l)
bytes=$(du -sb "$out" | cut -f 1)
say "$files files, $bytes bytes in $out"
if [ "$files" -gt 8 ] || [ "$bytes" -gt $most_bytes ]; then
	say "FAILED   that is more than 8 files or $most_bytes bytes"
	faults=$((faults + 1))
fi
[ $faults -eq 0 ]
