#!/usr/bin/env bash
# Fuzzes every decoder for the time given, such as 10m, a target at a time. What earlier runs have found out about a
# package lies in its testdata/corpus.tgz: each run begins with that, and keeps what it finds there. Arguments behind
# the time select packages: fuzz.sh 10m ./segment ./codec/...
set -euo pipefail
cd "$(dirname "$0")/../.."
time=${1:?how long, for each target}
shift
go=${GO:-go}
cache=$("$go" env GOCACHE)/fuzz

for pkg in $("$go" list "${@:-./...}"); do
  targets=$("$go" test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true)
  [ -n "$targets" ] || continue
  corpus=$("$go" list -f '{{.Dir}}' "$pkg")/testdata/corpus.tgz
  mkdir -p "$cache/$pkg" "$(dirname "$corpus")"
  [ ! -f "$corpus" ] || tar -xzf "$corpus" -C "$cache/$pkg"
  for target in $targets; do
    echo "== $pkg $target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
  done
  # The same inputs always make the same file.
  (cd "$cache/$pkg" && find $targets -type f 2>/dev/null | LC_ALL=C sort |
    tar -c --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 -T - | gzip -9n) >"$corpus.new"
  mv "$corpus.new" "$corpus"
done
