#!/usr/bin/env bash
# Does what README.md says under "Run it", with what `make build plugins` has built:
#
#   tests/readme.sh BINARY PLUGINS_DIR
#
# `check`, `rbac`, then `run` and `dev` against the test API server, each until a Service has its Endpoints. Ends with 0, or
# says which step failed and prints the logs. `make smoke` builds first.
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: tests/readme.sh BINARY PLUGINS_DIR" >&2
  exit 2
fi
pilothouse=$(realpath "$1")
plugins=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v curl >/dev/null || { echo "curl is missing: apt-get install curl" >&2; exit 1; }

# The longest that anything is waited for, in seconds. On an idle machine each takes a few.
readonly patience=120

work=$(mktemp -d)
server_id='' host_id=''
step='starting'

say() { echo "==> readme: $*"; }

# end PROCESS SIGNAL: and waits for it, without bash's word on how it ended.
end() {
  { [ -z "$1" ] || ! kill "-$2" "$1" || wait "$1" || true; } 2>/dev/null
}

finish() {
  local status=$?
  end "$host_id" KILL
  end "$server_id" TERM
  if [ "$status" -ne 0 ]; then
    echo "readme: failed at: $step" >&2
    for log in "$work"/*.log; do
      [ ! -s "$log" ] || { echo "--- the end of $(basename "$log"):" && tail -n 40 "$log"; } >&2
    done
  fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT

begin() {
  step=$*
  say "$step"
}

fail() {
  echo "readme: $*" >&2
  exit 1
}

# wait_for WHAT PROCESS COMMAND...: until the command succeeds; not after the process has ended.
wait_for() {
  local what=$1 process=$2 deadline=$((SECONDS + patience))
  shift 2
  until "$@"; do
    kill -0 "$process" 2>/dev/null || fail "a process ended while waited for: $what"
    [ $SECONDS -lt $deadline ] || fail "not within $patience s: $what"
    sleep 0.1
  done
}

# says FILE TEXT: the output must hold the text.
says() { grep -qF -- "$2" "$1" || fail "\"$2\" is not in the output: $(cat "$1")"; }

# The commands below are those that the reader sees.
for line in 'make build plugins' 'target/release/pilothouse dev --plugins target/plugins --kubeconfig ~/.kube/config'; do
  grep -qFx "$line" README.md || fail "README.md no longer says \"$line\": correct it or this script"
done

begin "pilothouse check"
"$pilothouse" check "$plugins/endpoints.wasm" >"$work/check.log"
says "$work/check.log" 'each v1/Service'
says "$work/check.log" 'v1/Endpoints'

begin "pilothouse rbac"
"$pilothouse" rbac "$plugins/endpoints.wasm" >"$work/rbac.log"
says "$work/rbac.log" 'kind: ClusterRole'
says "$work/rbac.log" '- services'

begin "an API server"
server=$(tests/apiserver/build.sh)
export KUBECONFIG=$work/kubeconfig
"$server" --data-dir "$work/server" --kubeconfig "$KUBECONFIG" >"$work/server.log" 2>&1 &
server_id=$!
wait_for "the API server is ready" "$server_id" test -s "$KUBECONFIG"

url=$(awk '$1 == "server:" {print $2}' "$KUBECONFIG")
token=$(awk '$1 == "token:" {print $2}' "$KUBECONFIG")
awk '$1 == "certificate-authority-data:" {print $2}' "$KUBECONFIG" | base64 -d >"$work/ca.crt"

# api METHOD PATH [BODY]: the answer's body; fails for an error's.
api() {
  local body=()
  [ $# -lt 3 ] || body=(--data "$3")
  local type=application/json
  [ "$1" != PATCH ] || type=application/merge-patch+json
  curl --silent --show-error --fail --max-time 20 --cacert "$work/ca.crt" -H "Authorization: Bearer $token" \
    -H "Content-Type: $type" -X "$1" "${body[@]}" "$url$2"
}

# pod NAME IP: a pod of the Service `web`, ready.
pod() {
  local pods=/api/v1/namespaces/default/pods
  api POST $pods '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"'"$1"'","labels":{"app":"web"}},
    "spec":{"containers":[{"name":"c","image":"example.dev/web","ports":[{"name":"http","containerPort":8080}]}]}}' >/dev/null
  api PATCH "$pods/$1/status" '{"status":{"phase":"Running","podIP":"'"$2"'","podIPs":[{"ip":"'"$2"'"}],
    "conditions":[{"type":"Ready","status":"True"}]}}' >/dev/null
}

# has_endpoint IP: whether the Endpoints of `web` have it.
has_endpoint() { api GET /api/v1/namespaces/default/endpoints/web 2>/dev/null | grep -q "\"ip\": *\"$1\""; }

# address_in LOG: where the host answers, once its log says so.
address_in() { grep -sF '"message":"listening"' "$1" | sed 's/.*"address":"\([^"]*\)".*/\1/'; }
listens() { address_in "$1" >/dev/null; }

answers() { curl --silent --fail --max-time 5 --output /dev/null "http://$1"; }

# serve COMMAND PLUGINS POD IP: a host runs until the pod is among the Service's Endpoints, and ends well.
serve() {
  begin "pilothouse $1, until the Service has the endpoint of a pod"
  local log=$work/$1.log status=0 address
  "$pilothouse" "$1" --plugins "$2" --kubeconfig "$KUBECONFIG" --listen 127.0.0.1:0 --log-format json \
    --code-cache "$work/code" >/dev/null 2>"$log" &
  host_id=$!
  wait_for "pilothouse $1 listens" "$host_id" listens "$log"
  address=$(address_in "$log")
  wait_for "pilothouse $1 is ready" "$host_id" answers "$address/readyz"
  pod "$3" "$4"
  wait_for "the Endpoints have $4" "$host_id" has_endpoint "$4"
  "$pilothouse" plugins --host "$address" >"$work/plugins.log"
  says "$work/plugins.log" running
  kill -TERM "$host_id"
  wait "$host_id" || status=$?
  host_id=''
  [ "$status" -eq 0 ] || fail "pilothouse $1 ended with $status after SIGTERM"
}

api POST /api/v1/namespaces/default/services '{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},
  "spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":"http"}]}}' >/dev/null

# `run` grants nothing that the settings do not, and `check` prints settings.
mkdir "$work/granted"
"$pilothouse" check "$plugins/endpoints.wasm" | sed -n '/sha256 = /,$p' >"$work/granted/endpoints.toml"
cp "$plugins/endpoints.wasm" "$work/granted/"
serve run "$work/granted" blue 10.1.0.1
serve dev "$plugins" green 10.1.0.2

say "all of it works"
