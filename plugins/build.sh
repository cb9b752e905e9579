#!/usr/bin/env bash
# Builds this repository's Rust plugins: plugins/build.sh OUTDIR PACKAGE...  ->  OUTDIR/PACKAGE.wasm
#
# A plugin is a core module for wasm32-unknown-unknown with its component type embedded; the host
# makes a component of it when it loads it. A project of your own (`pilothouse new`) needs no script:
# `cargo build --target wasm32-unknown-unknown` is enough.
set -euo pipefail

TARGET=wasm32-unknown-unknown
DEBIAN_PACKAGES=(rustc-web cargo-web rust-web-src)

say() { printf 'plugins: %s\n' "$*" >&2; }

usage() {
  echo "usage: plugins/build.sh OUTDIR PACKAGE..." >&2
  exit 2
}

# True if the toolchain that `cargo` would use has the target's standard library.
has_target() {
  command -v rustc >/dev/null && [ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET/lib" ]
}

# Adds the target with rustup. A failure is remembered for each toolchain: where rustup cannot be
# reached, later builds do not wait for it again.
add_target() {
  command -v rustup >/dev/null || return 1
  local refused
  refused=$CARGO_TARGET_DIR/no-target-$(rustc --version | tr -c 'a-zA-Z0-9.\n' -)
  [ ! -e "$refused" ] || return 1
  say "adding $TARGET to the toolchain"
  RUSTUP_MAX_RETRIES=0 timeout 120 rustup target add "$TARGET" >/dev/null 2>&1 && return
  mkdir -p "$CARGO_TARGET_DIR" && touch "$refused"
  say "rustup has no $TARGET for this toolchain; trying Debian's"
  return 1
}

# The Rust with which Debian builds its browsers is new enough, and comes with the source of the
# standard library.
has_debian() {
  dpkg -s "${DEBIAN_PACKAGES[@]}" >/dev/null 2>&1
}

add_debian() {
  command -v apt-get >/dev/null || return 1
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || return 1
    sudo=(sudo)
  fi
  say "installing ${DEBIAN_PACKAGES[*]} (about 800 MB)"
  local install=(apt-get install -y -qq --no-install-recommends "${DEBIAN_PACKAGES[@]}")
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" "${install[@]}" >/dev/null 2>&1 ||
    { "${sudo[@]}" apt-get update -qq >/dev/null 2>&1 && DEBIAN_FRONTEND=noninteractive "${sudo[@]}" "${install[@]}" >/dev/null 2>&1; }
}

build_with_target() {
  cargo build --locked --profile guest --target "$TARGET" "$@"
}

# Debian's compiler has no standard library for the target, so it is built from source, once, into
# the shared target directory.
build_with_debian() {
  local sysroot linker
  sysroot=$(rustc --print sysroot 2>/dev/null || true)
  linker=$(ls "$sysroot"/lib/rustlib/*/bin/rust-lld 2>/dev/null | head -n 1 || true)
  linker=${linker:-$(command -v rust-lld || command -v wasm-ld || ls /usr/bin/wasm-ld-* 2>/dev/null | tail -n 1 || true)}
  if [ -z "$linker" ]; then
    say "no wasm linker: install rustup's toolchain (it has rust-lld) or 'apt-get install lld'"
    return 1
  fi
  RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker \
    /usr/bin/cargo build --locked -Zbuild-std=std,panic_abort --profile guest --target "$TARGET" "$@"
}

no_way() {
  say "cannot build for $TARGET. Either of these makes it possible:"
  say "  rustup target add $TARGET"
  say "  apt-get install --no-install-recommends ${DEBIAN_PACKAGES[*]}   (Debian 12)"
  exit 1
}

[ $# -ge 2 ] || usage
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift

cd "$(dirname "$0")/.."
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/guests"
export CARGO_TARGET_DIR

arguments=()
for package in "$@"; do arguments+=(-p "$package"); done

if has_target; then
  build=build_with_target
elif add_target && has_target; then
  build=build_with_target
elif has_debian || add_debian; then
  build=build_with_debian
else
  no_way
fi

say "building $* (${build#build_with_})"
"$build" --lib --quiet "${arguments[@]}"

for package in "$@"; do
  built="$CARGO_TARGET_DIR/$TARGET/guest/${package//-/_}.wasm"
  # A file that is the same is not touched, so a host that watches the directory reloads only what
  # changed.
  cmp -s "$built" "$out/$package.wasm" || cp "$built" "$out/$package.wasm"
  say "$out/$package.wasm ($(($(wc -c <"$built") / 1024)) KiB)"
done
