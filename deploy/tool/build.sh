#!/usr/bin/env bash
# Builds what renders manifests and assembles images, and prints the path of the binary, the only
# line on standard output. The binary is kept outside the checkout under a hash of what it is made
# from, so that only the first call after a change builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly kept_builds=2
readonly cache="${PILOTHOUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pilothouse}/deploytool"

# The build must not depend on these variables of the environment.
export GOTOOLCHAIN=local GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0

source_hash() {
    {
        go version
        find . -name '*.go' -not -name '*_test.go' -print0 | sort -z | xargs -0 sha256sum
        sha256sum go.mod go.sum build.sh
    } | sha256sum | cut -c1-16
}

build() {
    echo "deploytool: building $1 (minutes when Go's build cache is empty)" >&2
    unfinished=$(mktemp "$cache/unfinished.XXXXXX")
    trap 'rm -f "$unfinished"' EXIT
    go build -trimpath -ldflags '-s -w' -o "$unfinished" . >&2
    chmod 0755 "$unfinished"
    mkdir -p "$(dirname "$1")"
    mv "$unfinished" "$1"
    find "$cache" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' |
        sort -rn | tail -n "+$((kept_builds + 1))" | cut -d' ' -f2- | xargs -r -d '\n' rm -rf
    echo "deploytool: done in ${SECONDS}s" >&2
}

binary="$cache/$(source_hash)/deploytool"
if [[ ! -x $binary ]]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    [[ -x $binary ]] || build "$binary"
fi
touch "$(dirname "$binary")"
echo "$binary"
