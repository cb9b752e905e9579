#!/usr/bin/env bash
# Builds plugins in Python: examples/build-python.sh OUTDIR DIRECTORY...  ->  OUTDIR/NAME.wasm
#
# Each DIRECTORY is a path from the top of this checkout, has the plugin as app.py, and gives it its
# name: examples/hello-python.
#
# Needs python3 (3.10 or newer) with venv, and PyPI for the first build. The tool and its output are
# kept in a cache outside the checkout, each under the hash of what it was made from. If nothing has
# changed, a build only copies the file.
set -euo pipefail

TOOL=componentize-py==0.25.1

say() { printf 'examples: %s\n' "$*" >&2; }
hash_of() { sha256sum | cut -c 1-16; }

install_tool() {
  [ ! -x "$venv/bin/componentize-py" ] || return 0
  say "installing $TOOL"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$TOOL"
}

# Builds the plugin of a directory as this file.
componentize() {
  # Tests stay out: a component remembers the names of all files beside those that it imports.
  local source=$work/${1##*/}
  mkdir -p "$source/pilothouse"
  cp "$1/app.py" "$source"
  cp "$sdk"/*.py "$source/pilothouse"
  # Built under another name and then renamed, so that an interrupted build leaves no file that
  # looks finished.
  PYTHONDONTWRITEBYTECODE=1 "$venv/bin/componentize-py" -d wit -w controller componentize -p "$source" app -o "$source.wasm" >/dev/null
  mv "$source.wasm" "$2"
}

if [ $# -lt 2 ]; then
  echo "usage: examples/build-python.sh OUTDIR DIRECTORY..." >&2
  exit 2
fi
mkdir -p "$1"
outdir=$(cd "$1" && pwd)
shift

cd "$(dirname "$0")/.."
sdk=plugins/sdk/python/pilothouse
cache=${PILOTHOUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pilothouse}/python
venv=$cache/tool-$(echo "$TOOL $(python3 --version)" | hash_of)
mkdir -p "$cache"
# In the cache, so that a finished file is renamed and not copied.
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

for directory in "$@"; do
  name=${directory##*/}
  out=$outdir/$name.wasm
  built=$cache/$name-$({ echo "$TOOL" && cat "$directory/app.py" "$sdk"/*.py wit/*.wit; } | hash_of).wasm
  if [ ! -f "$built" ]; then
    install_tool
    say "building $name (about 15 s)"
    componentize "$directory" "$built"
  fi
  cmp -s "$built" "$out" || cp "$built" "$out"
  say "$out ($(($(wc -c <"$out") / 1024)) KiB)"
done
