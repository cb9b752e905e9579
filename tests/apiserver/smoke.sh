#!/usr/bin/env bash
# Builds the test API server and checks, from outside, that it does what
# README.md says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
binary=$(./build.sh)
exec python3 -B smoke.py "$binary" "$@"
