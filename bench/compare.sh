#!/usr/bin/env bash
# compare.sh [-n RUNS] [-1] [-g GROW.PY TIMES] FILE
#
# Reads FILE (an uncompressed snapshot) with CPython's pickle.load and with this
# decoder, in turn, RUNS times (5), and prints the smallest and the median time
# of both, the ratio, and the decoder's peak memory. -1 keeps each on one core.
# -g makes FILE larger first: GROW.PY SOURCE TARGET TIMES is a script that does so.
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
[ $# -eq 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

file=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here/.." && go build -o "$work/decode" ./bench/decode)
if [ -n "$grow" ]; then
  python3 "$grow" "$file" "$work/grown.pickle" "$times"
  file=$work/grown.pickle
fi
cat "$file" >/dev/null # into the page cache, for both

for _ in $(seq "$runs"); do
  ${pin[@]+"${pin[@]}"} "$work/decode" "$file" >>"$work/go"
  ${pin[@]+"${pin[@]}"} python3 "$here/load.py" "$file" >>"$work/python"
done

python3 - "$work" "$(stat -c %s "$file")" <<'PY'
import statistics
import sys

work, size = sys.argv[1], int(sys.argv[2])
rows = [line.split() for line in open(f"{work}/go")]
go, timeline = ([float(r[i]) for r in rows] for i in (0, 1))
memory, events = max(float(r[2]) for r in rows), int(rows[0][3])
python = [float(line) for line in open(f"{work}/python")]
mid = statistics.median
print(f"{size / 1e6:.1f} MB, {events} events, {len(go)} runs of each")
print(f"pickle.load  min {min(python):8.3f} s  median {mid(python):8.3f} s")
print(f"decode       min {min(go):8.3f} s  median {mid(go):8.3f} s  {size / 1e6 / min(go):.0f} MB/s")
print(f"timeline     min {min(timeline):8.3f} s  median {mid(timeline):8.3f} s")
print(f"ratio        min {min(python) / min(go):8.1f}    median {mid(python) / mid(go):8.1f}")
allowed = max(0.5 * size, 100 * events) / 1e6 + 60
print(f"peak memory  {memory:.1f} MB, {memory * 1e6 / max(events, 1):.1f} bytes an event (aim: at most {allowed:.1f} MB)")
PY
