#!/usr/bin/env bash
# libmemcached.sh PORT DIR: what the command-line tools of libmemcached can do. Each run of a tool is a
# connection of its own.
set -euo pipefail
servers=--servers=127.0.0.1:$1
cd "$2"

# tool NAME…: runs a tool, which Debian calls memccp and others memcp.
tool() {
  local name=$1
  shift
  command -v "memc$name" >/dev/null && name="c$name"
  "mem$name" "$servers" "$@"
}
want() {
  [ "$2" = "$3" ] || { echo "$1: got '$2', want '$3'"; exit 1; }
  echo "$1: ok"
}

printf one >lib
tool cp lib
printf two >lib
tool cp lib
want "put and get" "$(tool cat lib)" one
want "open, and the connection ends: the item is back" "$(tool cat lib/open)$(tool cat lib/open)" twotwo
want "open, abort, open, close" "$(tool cat lib/open lib/abort lib/open lib/close || true)" $'two\ntwo'
want "it is gone" "$(tool cat lib || true)" ""
tool cp lib
want "timed get of an item" "$(tool cat lib/t=5000)" two
before=$(date +%s%N)
want "timed get of nothing" "$(tool cat lib/t=300 || true)" ""
[ $(($(date +%s%N) - before)) -ge 300000000 ] || { echo "timed get: it did not wait"; exit 1; }
tool cp lib
tool rm lib
want "delete" "$(tool cat lib || true)" ""
want "stats" "$(tool stat | grep -c '^	 *\(curr_items\|version\): ')" 2
want "version" "$(tool ping && echo up)" up
