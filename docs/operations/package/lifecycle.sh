#!/bin/sh
# In the machine of machine.sh: the package is installed, started, upgraded, removed and purged, and the
# queues are where they should be after each step.
set -eu
want() { # want WHAT EXPECTED COMMAND...
  what=$1 expected=$2
  shift 2
  got=$("$@" 2>&1) || true
  [ "$got" = "$expected" ] || { echo "FAILED: $what: got \"$got\", want \"$expected\""; journalctl -u kestrel -n 30 --no-pager; exit 1; }
  echo "ok: $what"
}
ask() { # one memcache conversation
  python3 -c '
import socket, sys
s = socket.create_connection(("127.0.0.1", 22133), timeout=20)
s.sendall(sys.argv[1].encode().decode("unicode_escape").encode() + b"quit\r\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).decode().replace("\r\n", " ").strip())' "$1"
}

new=$(ls /root/kestrel_*.deb)
# The version before is this one under a lower number.
dpkg-deb -R "$new" /tmp/before
sed -i 's/^Version:.*/Version: 0.0.1/' /tmp/before/DEBIAN/control
dpkg-deb -b /tmp/before /tmp/before.deb >/dev/null
dpkg -i /tmp/before.deb >/dev/null
want "the package starts the server" active systemctl is-active kestrel
want "the server is ready when systemctl returns" STORED ask 'set jobs 0 0 5\r\nfirst\r\n'
want "it runs as a user of its own" kestrel ps -o user= -C kestrel
want "only that user reads the queues" "700 kestrel" stat -c '%a %U' /var/lib/kestrel

echo 'max_queues = 1000' >>/etc/kestrel/kestrel.toml
systemctl reload kestrel
want "a reload keeps it running" active systemctl is-active kestrel
kill -9 "$(systemctl show -p MainPID --value kestrel)"
for i in $(seq 100); do [ "$(systemctl is-active kestrel)" = active ] && [ "$(systemctl show -p NRestarts --value kestrel)" = 1 ] && break; sleep 0.1; done
want "systemd starts it again after kill -9" active systemctl is-active kestrel
want "nothing is lost by that" "VALUE jobs 0 5 first END" ask 'get jobs/peek\r\n'

before=$(systemctl show -p MainPID --value kestrel)
dpkg -i --force-confold "$new" >/dev/null
want "an upgrade restarts the server" yes sh -c "[ $before != \$(systemctl show -p MainPID --value kestrel) ] && echo yes"
want "and keeps its items" "VALUE jobs 0 5 first END" ask 'get jobs/peek\r\n'
want "and the changed configuration" "max_queues = 1000" tail -1 /etc/kestrel/kestrel.toml

systemctl stop kestrel
systemctl start kestrel.socket
want "the socket starts the server for the first client" "VALUE jobs 0 5 first END" ask 'get jobs/peek\r\n'
want "which then runs" active systemctl is-active kestrel

dpkg -r kestrel >/dev/null
want "removing it stops the server" "" pgrep -x kestrel
want "and keeps the queues" yes sh -c '[ -d /var/lib/kestrel/journal ] && echo yes'
dpkg -P kestrel >/dev/null
want "a purge deletes them" gone sh -c '[ -e /var/lib/kestrel ] || [ -e /etc/kestrel ] || echo gone'
