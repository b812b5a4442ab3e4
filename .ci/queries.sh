#!/usr/bin/env bash
# The queries of doc/queries.md over a batch of the shipped recordings, in DuckDB itself.
# Needs a Python that can install duckdb and pyarrow; without a network it says so and is passed over.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export VRAMSCOPE_VENV=${VRAMSCOPE_VENV:-$work/venv}

python=${VRAMSCOPE_PYTHON:-}
if [ -z "$python" ] && ! python=$(.ci/python pyarrow==26.0.1 duckdb==2.0.0); then
  echo "queries: duckdb and pyarrow can't be installed here, so they are not tested"
  exit 0
fi

go build -o "$work/vramscope" ./cmd/vramscope
recordings=testdata/recordings
mkdir -p "$work/in/planted"/{1,2}
cp -r "$recordings" "$work/in/recordings"
# An experiment whose second run, by the recordings' clocks, takes more; and a file that breaks off.
cp "$recordings/decode__hf_dynamic_cache/snapshot_all.pickle.gz" "$work/in/planted/1/snapshot.pickle.gz"
cp "$recordings/gpt2_fp32_adamw__hf_loop/snapshot_roundup4.pickle.gz" "$work/in/planted/2/snapshot.pickle.gz"
echo '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}' >"$work/in/planted/2/config.json"
head -c 5000 "$recordings/qwen_vocab_oom__05b/snapshot_all.pickle.gz" >"$work/in/planted/broken.pickle.gz"
(cd "$work/in" && "$work/vramscope" batch recordings planted -o ../out)
"$python" .ci/queries.py doc/queries.md "$work/out"
