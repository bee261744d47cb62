"""python3-pymemcache against a server: pymemcache_client.py PORT.

It accepts a value only under the key that it asked for, and the answer to a get of work/open names the
queue, work. So it can put, get plainly, delete and ask for statistics; with options it can ask only, and
must then lose nothing.
"""
import sys
import time

from pymemcache.client.base import Client


def want(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, want {expected!r}")
    print(f"{what}: ok")


c = Client(("127.0.0.1", int(sys.argv[1])), timeout=10)
want("put", c.set("py", b"one", noreply=False), True)
want("put without a reply", c.set("py", b"two", noreply=True), True)
want("get", [c.get("py"), c.get("py"), c.get("py")], [b"one", b"two", None])
started = time.monotonic()
want("timed get of nothing", c.get("py/t=300"), None)
want("it waited", time.monotonic() - started >= 0.3, True)
c.set("py", b"three", noreply=False)
for option in ["open", "t=300"]:
    try:
        got = c.get("py/" + option)
    except KeyError as e:
        got = e.args
    want(f"{option}: cannot: the client refuses the queue's name", got, (b"py",))
    if option == "open":
        want("the item is back", c.get("py"), b"three")
        c.set("py", b"four", noreply=False)
want("delete", c.delete("py", noreply=False), True)
want("get after delete", c.get("py"), None)
stats = c.stats()
want("stats", stats[b"version"] == b"3.0.0" and stats[b"cmd_set"] >= 4, True)
want("version", c.version(), b"3.0.0")
c.quit()
