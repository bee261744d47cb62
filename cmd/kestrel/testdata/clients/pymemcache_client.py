"""python3-pymemcache against two servers: pymemcache_client.py PORT PLAIN.

It accepts a value only under the key that it asked for. The server on PORT repeats that key, by
memcache_reply_key = "request", and all options work. The one on PLAIN names the queue: there a get with
options raises KeyError, and an item that was opened must come back.
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
for item in [b"three", b"four"]:
    c.set("py", item, noreply=False)
want("open", c.get("py/t=300/open"), b"three")
want("abort", c.get("py/abort"), None)
want("open again", c.get("py/open"), b"three")
want("close and open the next", c.get("py/close/open"), b"four")
want("close", c.get("py/close"), None)
want("timed get of nothing is nothing", c.get("py/t=50"), None)
plain = Client(("127.0.0.1", int(sys.argv[2])), timeout=10)
plain.set("py", b"five", noreply=False)
try:
    got = plain.get("py/open")
except KeyError as e:
    got = e.args
want("without the setting: the client refuses the queue's name", got, (b"py",))
back = None
for _ in range(1000):  # until the server has seen the end of the connection
    back = plain.get("py")
    if back is not None:
        break
    time.sleep(0.01)
want("the item is back", back, b"five")
plain.quit()
want("delete", c.delete("py", noreply=False), True)
want("get after delete", c.get("py"), None)
stats = c.stats()
want("stats", stats[b"version"] == b"3.0.0" and stats[b"cmd_set"] >= 4, True)
want("version", c.version(), b"3.0.0")
c.quit()
