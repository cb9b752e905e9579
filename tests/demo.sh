#!/usr/bin/env bash
# Does `make run`, as README.md says, until the demo has told its story, and then interrupts it as
# a terminal does. Ends with 0, or says what is missing and prints what the demo has said.
set -euo pipefail
cd "$(dirname "$0")/.."

# How long the story may take once everything is built, in seconds. An idle machine takes ten.
readonly patience=300

log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
  echo "demo: $1; it said:" >&2
  cat "$log" >&2
  exit 1
}

says() { grep -qF -- "$1" "$log"; }

# A group of its own, as a terminal would give it: the signal goes to all of the group.
setsid make run >"$log" 2>&1 &
group=$!
deadline=0
until says 'Everything keeps running'; do
  kill -0 "$group" 2>/dev/null || fail "\`make run\` ended before its story"
  if [ "$deadline" -eq 0 ]; then
    ! says '==> starting an API server' || deadline=$((SECONDS + patience))
  elif [ "$SECONDS" -ge "$deadline" ]; then
    kill -KILL -- "-$group"
    fail "no whole story within $patience s"
  fi
  sleep 0.2
done
kill -INT -- "-$group"
# Bash has `make` ignore the interrupt, since it runs in the background: the status is the demo's.
wait "$group" || fail "it did not end well after an interrupt"
says stopping || fail "nothing was said of the interrupt"
echo "==> demo: the story was told"
