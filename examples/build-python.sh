#!/usr/bin/env bash
# Builds the Python example: examples/build-python.sh OUTDIR  ->  OUTDIR/hello-python.wasm
#
# Needs python3 (3.10 or newer) with venv, and PyPI for the first build. The tool and its output are
# kept in a cache outside the checkout, each under the hash of what it was made from. If nothing has
# changed, a build only copies the file.
set -euo pipefail

TOOL=componentize-py==0.25.1
NAME=hello-python

say() { printf 'examples: %s\n' "$*" >&2; }
hash_of() { sha256sum | cut -c 1-16; }

if [ $# -ne 1 ]; then
  echo "usage: examples/build-python.sh OUTDIR" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)/$NAME.wasm

cd "$(dirname "$0")"
sdk=../plugins/sdk/python/pilothouse
cache=${PILOTHOUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pilothouse}/python
venv=$cache/tool-$(echo "$TOOL $(python3 --version)" | hash_of)
built=$cache/$NAME-$({ echo "$TOOL" && cat "$NAME/app.py" "$sdk"/*.py ../wit/*.wit; } | hash_of).wasm

if [ ! -f "$built" ]; then
  if [ ! -x "$venv/bin/componentize-py" ]; then
    say "installing $TOOL"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$TOOL"
  fi
  say "building $NAME (about 15 s)"
  # Built under another name and then renamed, so that an interrupted build leaves no file that
  # looks finished.
  part=$built.$$
  # Tests stay out: a component remembers the names of all files beside those that it imports.
  source=$(mktemp -d)
  trap 'rm -rf "$part" "$source"' EXIT
  mkdir "$source/pilothouse"
  cp "$NAME/app.py" "$source"
  cp "$sdk"/*.py "$source/pilothouse"
  PYTHONDONTWRITEBYTECODE=1 "$venv/bin/componentize-py" -d ../wit -w controller componentize -p "$source" app -o "$part" >/dev/null
  mv "$part" "$built"
fi
cmp -s "$built" "$out" || cp "$built" "$out"
say "$out ($(($(wc -c <"$out") / 1024)) KiB)"
