#!/usr/bin/env bash
# Runs a Beam program on a Flink of its own: starts one from its Maven packages,
# gives the program the flags that send its pipeline there, and stops it again.
#
#   go build -o vramscope-beam . && ./flink.sh ./vramscope-beam RUNS… -o OUT
#
# FLINK_HOME   where the packages are kept (default: .flink beside this script)
# BOOT         Beam's boot program: workers are then processes of their own, as on a cluster (default: the program itself works)
# PARALLELISM  how many parts of the pipeline run at a time (default: 2)
#
# Exits with 3 when the packages can't be fetched, else as the program does.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
home=${FLINK_HOME:-$here/.flink}
[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for tool in java mvn; do
  command -v "$tool" >/dev/null || { echo "flink.sh: $tool is needed" >&2; exit 2; }
done

if ! [ -f "$home/complete" ] || [ "$here/pom.xml" -nt "$home/complete" ]; then
  echo "flink.sh: fetching Flink's packages" >&2
  rm -rf "$home" && mkdir -p "$home"
  mvn --quiet --batch-mode -Dstyle.color=never -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home/lib" >&2 ||
    { echo "flink.sh: Maven could not fetch Flink's packages" >&2; exit 3; }
  touch "$home/complete"
fi

work=$(mktemp -d)
server=
stop() {
  if [ -n "$server" ] && kill "$server" 2>/dev/null; then wait "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap stop EXIT

opens=()
for package in java.lang java.util java.util.concurrent java.nio java.net java.io sun.nio.ch; do
  opens+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
: >"$work/log" # it is looked at before the server may have begun it
# Port 0: whatever is free.
java -Xmx2g "${opens[@]}" -Djava.io.tmpdir="$work" -cp "$home/lib/*" org.apache.beam.runners.flink.FlinkJobServerDriver \
  --flink-master='[local]' --job-host=localhost --job-port=0 --artifact-port=0 --expansion-port=0 \
  --artifacts-dir="$work/artifacts" >"$work/log" 2>&1 &
server=$!
endpoint=
for _ in $(seq 240); do
  endpoint=$(sed -n 's/.*JobService started on \([^ ]*\).*/\1/p' "$work/log" | head -1)
  [ -z "$endpoint" ] || break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.5
done
[ -n "$endpoint" ] || { echo "flink.sh: the job server did not start:" >&2; tail -30 "$work/log" >&2; exit 1; }

# LOOPBACK: Flink calls back into this program, which does the work.
where=(--environment_type=LOOPBACK)
if [ -n "${BOOT:-}" ]; then
  where=(--environment_type=PROCESS --environment_config="{\"command\": \"$(realpath "$BOOT")\"}")
fi
code=0
"$@" --runner=flink --endpoint="$endpoint" "${where[@]}" --worker_binary="$(command -v "$1")" --parallelism="${PARALLELISM:-2}" || code=$?
if [ "$code" -ne 0 ]; then grep -E 'ERROR|Caused by' "$work/log" | tail -20 >&2 || true; fi
exit "$code"
