#!/bin/sh
# In the machine of machine.sh: a new user's hour, in a minute. Each step is what the documents tell that user
# to do, and says what it saw.
set -eu
want() { # want WHAT PATTERN COMMAND...: the output has the pattern, an extended regular expression
  what=$1 pattern=$2
  shift 2
  got=$(timeout 60 "$@" 2>&1) || true
  printf '%s\n' "$got" | grep -Eq -e "$pattern" || {
    echo "FAILED: $what: \"$got\" has no \"$pattern\""
    journalctl -u kestrel -n 20 --no-pager
    exit 1
  }
  echo "ok: $what"
}

echo "--- install"
dpkg -i /root/kestrel_*.deb >/dev/null
want "the server runs" '^active$' systemctl is-active kestrel
want "and is ready" '^ready' python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:2223/readyz").read().decode())'

echo "--- put and get, from the shell and from Python"
want "put" '2 items put into "jobs"' kestrel put jobs one two
want "get" '^one$' kestrel get jobs
want "pymemcache" "^b'two' None$" python3 -c '
from pymemcache.client.base import Client
c = Client("127.0.0.1:22133")
print(c.get("jobs"), c.get("jobs"))'
want "a worker in one line" '^done: three' sh -c 'kestrel put jobs three >/dev/null; kestrel get jobs --wait 1s --exec "sed s/^/done:\ /"'
want "its item is gone" '^0$' sh -c 'kestrel ls jobs --output json | python3 -c "import json,sys; print(json.load(sys.stdin)[0][\"items\"])"'

echo "--- look"
kestrel put jobs 1 2 3 4 5 >/dev/null
tmux new-session -d -s look -x 100 -y 24 'kestrel top'
for i in $(seq 100); do tmux capture-pane -p -t look | grep -q '^jobs' && break; sleep 0.1; done
want "top" '^jobs .* 5 ' tmux capture-pane -p -t look
tmux send-keys -t look q

echo "--- a consumer breaks, and somebody has to find who holds the items"
python3 -c '
import socket, time
s = socket.create_connection(("127.0.0.1", 22133))
s.sendall(b"get jobs/open\r\n")
s.recv(1000)
time.sleep(600)' &
for i in $(seq 100); do kestrel clients jobs | grep -q jobs:1 && break; sleep 0.1; done
want "clients" 'memcache .* jobs:1' kestrel clients jobs
number=$(kestrel clients jobs --output json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["number"])')
want "the item is given back by hand" 'holds nothing any more' kestrel clients --return-reads "$number"
want "and is the first again" '^1$' kestrel peek jobs

echo "--- back up, and restore elsewhere"
want "backup" 'of them [0-9]+ files?, .* came now' kestrel backup --output /root/copy
kestrel put jobs 6 >/dev/null
want "the next one takes only what is new" 'of them 1 file, .* came now' kestrel backup --output /root/copy
want "restore" '1 queue' kestrel restore /root/copy --data-dir /root/elsewhere
kestrel serve --data-dir /root/elsewhere --memcache-port 22134 --thrift-port none --text-port none >/root/elsewhere.log 2>&1 &
for i in $(seq 100); do grep -q 'msg=listening' /root/elsewhere.log && break; sleep 0.1; done
want "all six items are there, in order" '^1 2 3 4 5 6 $' sh -c 'kestrel get jobs --all --server 127.0.0.1:22134 | tr "\n" " "'

echo "--- upgrade"
dpkg-deb -R /root/kestrel_*.deb /tmp/next
sed -i 's/^Version:.*/Version: 99.0.0/' /tmp/next/DEBIAN/control
dpkg-deb -b /tmp/next /tmp/next.deb >/dev/null
dpkg -i /tmp/next.deb >/dev/null
want "nothing is lost by it" '^1 2 3 4 5 6 $' sh -c 'kestrel get jobs --all | tr "\n" " "'

echo "--- the manual"
want "every command has a page" 'NAME' sh -c 'zcat /usr/share/man/man1/kestrel-put.1.gz'
want "help shows an example" '\$ kestrel put' kestrel put --help
