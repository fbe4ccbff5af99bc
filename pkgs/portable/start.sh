#!/bin/sh
# @name@ @version@ for any x86_64 Linux. The first run unpacks what is behind this script into the user's cache.
set -eu
fail() {
  echo "@name@: $1" >&2
  exit 1
}
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fail "this file is for Linux on x86_64, this machine is $(uname -s) on $(uname -m)"
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
[ -n "$cache" ] || fail "neither HOME nor XDG_CACHE_HOME is set: set one, below which the program is unpacked"
root=$cache/@name@/@digest@
if [ ! -d "$root" ]; then
  mkdir -p "$cache/@name@" || fail "can't unpack into $cache: set XDG_CACHE_HOME to a folder that can be written"
  new=$(mktemp -d "$cache/@name@/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  trap 'exit 1' HUP INT TERM
  tail -c +@offset@ "$0" | tar -x -z -o -f - -C "$new" || fail "can't unpack into $cache, @megabytes@ MB: is there room? Is $0 whole?"
  # Another run may have been faster. What it unpacked is the same.
  [ -d "$root" ] || mv "$new" "$root"
  trap - EXIT HUP INT TERM
  rm -rf "$new"
fi
exec "$root/python" -ISB "$root/launch.py" "$@"
