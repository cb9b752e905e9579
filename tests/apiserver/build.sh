#!/usr/bin/env bash
# Builds the test API server and prints the path of the binary, the only line
# on standard output. The binary is kept outside the checkout under a hash of
# what it is made from, so that only the first call after a change builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly kubernetes_version=v1.37.2
readonly kept_builds=3
readonly cache="${PILOTHOUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pilothouse}/testserver"
readonly definitions=internal/openapi/zz_generated.openapi.go

# The build must not depend on these variables of the environment.
export GOTOOLCHAIN=local GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0

say() { echo "testserver: $*" >&2; }

source_hash() {
    {
        go version
        find . -name '*.go' -not -name '*_test.go' -not -path "./$definitions" -print0 |
            sort -z | xargs -0 sha256sum
        sha256sum go.mod go.sum build.sh
    } | sha256sum | cut -c1-16
}

# The definitions of every served type, and of the types those refer to.
generate_definitions() {
    local fresh
    fresh=$(mktemp -d)
    go tool openapi-gen \
        --output-dir "$fresh" \
        --output-pkg pilothouse.dev/tests/apiserver/internal/openapi \
        --output-file "$(basename "$definitions")" \
        --go-header-file /dev/null \
        --report-filename /dev/null \
        k8s.io/api/{core,apps,batch,coordination,discovery,events,policy,networking,storage,rbac,authorization}/v1 \
        k8s.io/api/autoscaling/{v1,v2} \
        k8s.io/api/scheduling/{v1,v1alpha3} \
        k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 \
        k8s.io/apimachinery/pkg/{api/resource,apis/meta/v1,runtime,util/intstr,version} >&2
    mv "$fresh/$(basename "$definitions")" "$definitions"
    rmdir "$fresh"
}

# Prints one line for every hundred packages. Passes on every line that is not
# the name of a package, such as an error.
show_progress() {
    awk '/[ #]/ { print; next } ++n % 100 == 0 { print "testserver: " n " packages compiled" } { fflush() }' >&2
}

compile() {
    local version=k8s.io/component-base/version
    go build -v -trimpath -o "$1" -ldflags "-s -w
        -X $version.gitVersion=$kubernetes_version -X $version.gitMajor=1 -X $version.gitMinor=37
        -X $version.gitTreeState=clean -X $version.gitCommit=pilothouse-test" . 2>&1 | show_progress
}

# Deleting a binary does not disturb a process that still runs it.
forget_old_builds() {
    find "$cache" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' |
        sort -rn | tail -n "+$((kept_builds + 1))" | cut -d' ' -f2- | xargs -r -d '\n' rm -rf
}

build() {
    say "building $1 (minutes when Go's build cache is empty)"
    generate_definitions
    unfinished=$(mktemp "$cache/unfinished.XXXXXX")
    trap 'rm -f "$unfinished"' EXIT
    compile "$unfinished"
    chmod 0755 "$unfinished"
    mkdir -p "$(dirname "$1")"
    mv "$unfinished" "$1"
    forget_old_builds
    say "done in ${SECONDS}s"
}

binary="$cache/$(source_hash)/pilothouse-apiserver"
if [[ ! -x $binary ]]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    [[ -x $binary ]] || build "$binary"
fi
touch "$(dirname "$binary")"
echo "$binary"
