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
old=/root/before.deb
if [ ! -e "$old" ]; then
  echo "not tried: an upgrade from an older build; this one is its own version before"
  old=$new
fi
# Two builds between releases have the same number, and only a lower one is upgraded.
dpkg-deb -R "$old" /tmp/before
sed -i 's/^Version:.*/Version: 0.0.1/' /tmp/before/DEBIAN/control
if [ "$old" != "$new" ]; then
  dpkg-deb -R "$new" /tmp/after
  want "the older build is another program" other sh -c 'cmp -s /tmp/before/usr/bin/kestrel /tmp/after/usr/bin/kestrel || echo other'
fi
dpkg-deb -b /tmp/before /tmp/before.deb >/dev/null
dpkg -i /tmp/before.deb >/dev/null
want "the package starts the server" active systemctl is-active kestrel
want "the server is ready when systemctl returns" STORED ask 'set jobs 0 0 5\r\nfirst\r\n'
want "it runs as a user of its own" kestrel ps -o user= -C kestrel
want "only that user reads the queues" "700 kestrel" stat -c '%a %U' /var/lib/kestrel

# Of each kind of data something: many items, some of which are gone; a backlog on disk; flags; a delay; a lease that is
# given back after the upgrade; and a read that is open when the server stops.
cat >/tmp/data.py <<'PYTHON'
import socket, sys, time
s = socket.create_connection(("127.0.0.1", 22133), timeout=60)
f = s.makefile("rb")
def line(): return f.readline().rstrip(b"\r\n")
def put(key, data, flags=0):
    s.sendall(b"set %s %d 0 %d\r\n%s\r\n" % (key.encode(), flags, len(data), data))
    assert line() == b"STORED", key
def get(key, verb="get"):
    s.sendall(verb.encode() + b" %s\r\n" % key.encode())
    head = line()
    if head == b"END": return None
    words = head.split()
    data = f.read(int(words[3]) + 2)[:-2]
    assert line() == b"END", key
    return int(words[2]), data, words[4:]
def body(n): return b"%d " % n + b"x" * (n % 3000)
if sys.argv[1] == "put":
    for n in range(1000): put("lines", body(n), n)
    for n in range(2000): put("backlog", body(n), n)
    for n in range(100): assert get("lines") == (n, body(n), []), n
    for n in range(800): assert get("backlog") == (n, body(n), []), n
    put("later/delay=1000", b"late")
    put("leased", b"held")
    open("/tmp/receipt", "wb").write(get("leased/lease=3600000", "gets")[2][0])
    assert get("lines/open") == (100, body(100), [])
    print("put", flush=True)
    time.sleep(600)  # the read stays open
for n in range(100, 1000):
    got = get("lines")
    assert got == (n, body(n), []), ("lines", n, got)
for n in range(800, 2000):
    got = get("backlog")
    assert got == (n, body(n), []), ("backlog", n, got)
assert get("lines") is None and get("backlog") is None, "more than was put"
assert get("later/t=30000") == (0, b"late", []), "the delayed item"
assert get("leased") is None, "the lease"
get("leased/abort=" + open("/tmp/receipt").read())
assert get("leased")[1] == b"held", "the item of the lease"
print("everything is there")
PYTHON
printf '\n[queues.backlog]\nmax_memory_size = "256KiB"\n' >>/etc/kestrel/kestrel.toml
systemctl reload kestrel
python3 /tmp/data.py put >/tmp/data.log 2>&1 &
for i in $(seq 600); do [ -s /tmp/data.log ] && break; sleep 0.1; done
want "the older build takes data of each kind" put cat /tmp/data.log
want "some of it in a backlog on disk" yes sh -c 'ls /var/lib/kestrel/backlog | grep -q run && echo yes'
sed -i 's/^\[queues.backlog\]/max_queues = 1000\n&/' /etc/kestrel/kestrel.toml
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
want "all of it: each item, in order, as often as it was put" "everything is there" python3 /tmp/data.py check
want "and the changed configuration" "max_queues = 1000" grep max_queues /etc/kestrel/kestrel.toml

systemctl stop kestrel
systemctl start kestrel.socket
want "the socket starts the server for the first client" "VALUE jobs 0 5 first END" ask 'get jobs/peek\r\n'
want "which then runs" active systemctl is-active kestrel

dpkg -r kestrel >/dev/null
want "removing it stops the server" "" pgrep -x kestrel
want "and keeps the queues" yes sh -c '[ -d /var/lib/kestrel/journal ] && echo yes'
dpkg -P kestrel >/dev/null
want "a purge deletes them" gone sh -c '[ -e /var/lib/kestrel ] || [ -e /etc/kestrel ] || echo gone'
