#!/usr/bin/env bash
# compare.sh [-n RUNS] [-1] [-g GROW.PY TIMES] FILE
#
# Reads FILE (an uncompressed snapshot) with CPython's pickle.load, takes the
# passes over it in one process each time, and analyzes it as a whole, as text
# and, with the file's digest, as JSON: RUNS times (5), each time in another
# order, as what one leaves behind slows the next down. It prints the smallest
# and the median time of each, their ratios, and the decoder's peak memory.
# Decoding is timed on one core, too, which is all that pickle.load uses; -1 keeps
# everything on one. Small files are read again and again, too, in one process each:
# the first time is mostly page faults. -g makes FILE larger first: GROW.PY SOURCE TARGET TIMES is a
# script that does so.
set -euo pipefail

runs=5 pin=() grow='' times=0
while getopts 'n:1g:' option; do
  case $option in
    n) runs=$OPTARG ;;
    1) pin=(taskset -c 0) ;;
    g) grow=$OPTARG times=${!OPTIND} OPTIND=$((OPTIND + 1)) ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }

file=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here/.." && go build -o "$work/passes" ./bench/passes && go build -o "$work/vramscope" ./cmd/vramscope)
if [ -n "$grow" ]; then
  python3 "$grow" "$file" "$work/grown.pickle" "$times"
  file=$work/grown.pickle
fi
cat "$file" >/dev/null # into the page cache, for all

one() {
  case $1 in
    passes) ${pin[@]+"${pin[@]}"} "$work/passes" "$file" >>"$work/laps" ;;
    single) taskset -c 0 "$work/passes" "$file" | sed -n 's/^decode\( \|-again \)/decode-one-core\1/p' >>"$work/laps" ;;
    load) ${pin[@]+"${pin[@]}"} python3 "$here/load.py" "$file" >>"$work/laps" ;;
    *)
      local from=${EPOCHREALTIME/[.,]/}
      ${pin[@]+"${pin[@]}"} "$work/vramscope" analyze --format "$1" "$file" >/dev/null
      echo "analyze-$1 $((${EPOCHREALTIME/[.,]/} - from))e-6" >>"$work/laps"
      ;;
  esac
}
for _ in $(seq "$runs"); do
  for what in $(shuf -e passes single load text json); do one "$what"; done
done

python3 - "$work/laps" "$(stat -c %s "$file")" <<'PY'
import collections
import statistics
import sys

size = int(sys.argv[2])
laps = collections.defaultdict(list)
for line in open(sys.argv[1]):
    name, number = line.split()
    laps[name].append(float(number))
memory, events, table = max(laps.pop("memory")), int(laps.pop("events")[0]), laps.pop("events.parquet")[0]
print(f"{size / 1e6:.1f} MB, {events} events, {len(laps['decode'])} runs of each; seconds")
for name, seconds in sorted(laps.items()):
    print(f"{name:37} min {min(seconds):9.4f}  median {statistics.median(seconds):9.4f}")


def ratio(a, b, aim):
    of = [f(laps[a]) / f(laps[b]) for f in (min, statistics.median)]
    print(f"{a + ' / ' + b:37} min {of[0]:8.2f}  median {of[1]:8.2f}  (aim: {aim})")


for decode in ("decode", "decode-one-core"):
    ratio("pickle.load", decode, "25 or more")
    if decode + "-again" in laps:
        ratio("pickle.load-again", decode + "-again", "25 or more")
for analyze in ("analyze-text", "analyze-json"):
    ratio("pickle.load", analyze, "10 or more")
    ratio(analyze, "decode", "2 or less")
    ratio(analyze, "decode-one-core", "2 or less")
ratio("classify", "decode", "0.33 or less")
ratio("tables", "decode", "1.5 or less")
allowed = max(0.5 * size, 100 * events) / 1e6 + 60
print(f"events.parquet is 1/{size / table:.0f} of the file (aim: 1/20 or less)")
print(f"decoding takes {memory / 1e6:.1f} MB, {memory / max(events, 1):.1f} bytes an event (aim: {allowed:.1f} MB or less)")
PY
