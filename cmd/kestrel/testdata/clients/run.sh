#!/usr/bin/env bash
# Tries clients that know nothing of this server against it: run.sh KESTREL, where KESTREL is the built
# program. It installs the clients that are missing, from Debian and npm, starts a server of its own on
# free ports, and fails if anything that a client does goes wrong.
set -euo pipefail

kestrel=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
idl=$(realpath "$here/../../../../docs/kestrel.thrift")
work=$(mktemp -d)
server= request_server=

finish() {
  status=$?
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$request_server" ] || kill "$request_server" 2>/dev/null || true
  [ "$status" = 0 ] || [ ! -f "$work/log" ] || tail -n 20 "$work/log" >&2
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT

install_missing() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  echo "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -q --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# port PROTOCOL LOG prints the port that a log says its server listens on.
port() {
  sed -n 's/.*"msg":"listening","protocol":"'"$1"'","address":"[^"]*:\([0-9]*\)".*/\1/p' "$work/$2"
}

install_missing libmemcached-tools python3-pymemcache python3-memcache libcache-memcached-perl \
  thrift-compiler python3-thrift
command -v npm >/dev/null || install_missing nodejs npm
modules=$here/../../../../bin/clients
mkdir -p "$modules"
for try in 1 2 3; do # npm may not answer at once
  npm install --prefix "$modules" --silent --no-audit --no-fund memcached@2.2.2 >/dev/null && break
  [ "$try" -lt 3 ]
done
thrift --gen py -out "$work" "$idl"

"$kestrel" serve --data-dir "$work/data" --memcache-port auto --thrift-port auto --text-port none \
  --max-open-transactions 10 --log-format json 2>"$work/log" &
server=$!
# The same, for the clients that accept a value only under the key that they asked for.
echo 'memcache_reply_key = "request"' >"$work/request.toml"
"$kestrel" serve --config "$work/request.toml" --data-dir "$work/request" --memcache-port auto --thrift-port none \
  --text-port none --log-format json 2>"$work/request.log" &
request_server=$!
for _ in $(seq 100); do
  [ -z "$(port memcache log)" ] || [ -z "$(port thrift log)" ] || [ -z "$(port memcache request.log)" ] || break
  kill -0 "$server" "$request_server"
  sleep 0.1
done
memcache=$(port memcache log)
thrift=$(port thrift log)
by_request=$(port memcache request.log)
[ -n "$memcache" ] && [ -n "$thrift" ] && [ -n "$by_request" ]

python=/usr/bin/python3 # which has Debian's modules
failed=0
try() {
  echo "== $1"
  shift
  timeout 60 "$@" || { echo "FAILED"; failed=1; }
}
try "libmemcached tools" "$here/libmemcached.sh" "$memcache" "$work"
try "python3-pymemcache" "$python" "$here/pymemcache_client.py" "$by_request" "$memcache"
try "python3-memcache" "$python" "$here/python_memcache.py" "$memcache"
try "Perl Cache::Memcached" perl "$here/perl.pl" "$memcache"
NODE_PATH="$modules/node_modules" try "Node memcached" node "$here/node.js" "$memcache"
PYTHONPATH="$work" try "Python Thrift, generated from docs/kestrel.thrift" \
  "$python" "$here/thrift_client.py" "$thrift"
[ "$failed" = 0 ]
kill -0 "$server" "$request_server"
echo "all clients pass"
