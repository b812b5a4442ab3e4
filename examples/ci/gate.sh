#!/usr/bin/env bash
# Judges a recording, compares it with a baseline, and fails when a condition holds. For
# GitHub (action.yml) and GitLab (gitlab.yml), or by hand:
#
#   RECORDING=run/ BASELINE=last-good/ FAIL_ON=$'oom\nleak' examples/ci/gate.sh
#
# RECORDING  a recording or a run's folder
# BASELINE   what to compare with; nothing is compared when it isn't there
# FAIL_ON    conditions on the recording, one a line
# GREW       conditions on the growth over the baseline, one a line
# REPORT     folder for report.html, report.json, gate.xml and summary.md
# SUMMARY    file to append the summary to, in Markdown
set -euo pipefail

: "${RECORDING:?a recording or the folder of a run}"
REPORT=${REPORT:-vramscope-report}
mkdir -p "$REPORT"

# conditions makes flags of lines.
conditions() {
  flags=()
  while IFS= read -r line; do
    if [ -n "${line// /}" ]; then flags+=(--fail-on "$line"); fi
  done <<<"$1"
}

# judged runs a command whose exit code 1 or 2 is the gate's, and goes on.
code=0
judged() {
  local this=0
  "$@" || this=$?
  if [ "$this" -gt "$code" ]; then code=$this; fi
}

conditions "${FAIL_ON-$'oom\nleak'}"
files=(-o "$REPORT/report.html" -o "$REPORT/report.json")
if [ ${#flags[@]} -gt 0 ]; then files+=(-o "$REPORT/gate.xml"); fi
judged vramscope analyze "$RECORDING" ${flags[@]+"${flags[@]}"} "${files[@]}" --format markdown --max-bytes 60000 >"$REPORT/summary.md"

if [ -n "${BASELINE-}" ] && [ -e "$BASELINE" ]; then
  conditions "${GREW-grew>5%}"
  files=()
  if [ ${#flags[@]} -gt 0 ]; then files+=(-o "$REPORT/gate-growth.xml"); fi
  judged vramscope diff "$BASELINE" "$RECORDING" ${flags[@]+"${flags[@]}"} ${files[@]+"${files[@]}"} --format markdown --max-bytes 60000 \
    >"$REPORT/growth.md"
  printf '\n' >>"$REPORT/summary.md"
  cat "$REPORT/growth.md" >>"$REPORT/summary.md"
  rm "$REPORT/growth.md"
fi

if [ -n "${SUMMARY-}" ]; then cat "$REPORT/summary.md" >>"$SUMMARY"; fi
exit "$code"
