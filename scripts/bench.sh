#!/usr/bin/env bash
# scripts/bench.sh [RUNS]: whole-process times and memory, each beside what it
# is compared with in the same run. Nothing here fails for being slow: the
# figures belong in docs/acceptance.md. Needs python3, which is also the peer
# for reading a snapshot. With ORACLES=DIR, real configurations are read too.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/build.sh "$work/floodmark"
fm=$work/floodmark

echo "== start, $runs runs"
scripts/whole_process.py "$runs" "floodmark --version=$fm --version" "true=true"

echo "== a model of 70B from its config.json"
scripts/whole_process.py "$runs" "estimate=$fm estimate testdata/models/Llama-3.1-70B-Instruct --context 8192 --generated 1024 --sequences 32 --gpu h100"
if [ -n "${ORACLES:-}" ]; then
	echo "== a folder with an index of 92,000 tensors (DeepSeek-V3)"
	scripts/whole_process.py "$runs" "estimate=$fm estimate $ORACLES/zoo/deepseek-ai__DeepSeek-V3"
fi

echo "== a memory snapshot of a million events"
go test ./snapshot -run 'TestLarge$' -large "$work/million.pickle" -events 1000000 >/dev/null
ls -l "$work/million.pickle" | awk '{ printf "%.1f MB\n", $5 / 1e6 }'
load='import pickle,sys; pickle.load(open(sys.argv[1],"rb"))'
go test -c -o "$work/snapshot.test" ./snapshot
scripts/whole_process.py "$runs" \
	"parse, timelines and peaks=$work/snapshot.test -test.run TestLarge$ -large $work/million.pickle -events 0" \
	"floodmark explain=$fm explain $work/million.pickle --json" \
	"pickle.load=python3 -c '$load' $work/million.pickle" \
	"pickle.load, collector off=python3 -c 'import gc; gc.disable(); $load' $work/million.pickle" \
	"floodmark replay=$fm replay $work/million.pickle --json"
