"""python3-memcache against a server: python_memcache.py PORT."""
import sys
import time

import memcache


def want(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, want {expected!r}")
    print(f"{what}: ok")


c = memcache.Client(["127.0.0.1:" + sys.argv[1]], socket_timeout=10)
want("put", [bool(c.set("pm", s)) for s in ["one", "two"]], [True, True])
want("get", [c.get("pm"), c.get("pm"), c.get("pm")], ["one", "two", None])
want("put a number, whose type is in the flags", bool(c.set("pm", 17)), True)
want("get it", c.get("pm"), 17)
c.set("pm", "three")
c.set("pm", "four")
want("open", c.get("pm/open"), "three")
want("abort", c.get("pm/abort"), None)
want("open", c.get("pm/open"), "three")
want("close and open", c.get("pm/close/open"), "four")
want("close", c.get("pm/close"), None)
want("it is gone", c.get("pm"), None)
started = time.monotonic()
want("timed get of nothing", c.get("pm/t=300"), None)
want("it waited", time.monotonic() - started >= 0.3, True)
c.set("pm", "five")
want("timed get", c.get("pm/t=5000"), "five")
c.set("pm", "six")
want("delete", bool(c.delete("pm")), True)
want("get after delete", c.get("pm"), None)
(_, stats), = c.get_stats()
want("stats", (stats["version"], int(stats["cmd_set"]) > 0), ("3.0.0", True))
want("flush_all", c.flush_all(), None)
c.disconnect_all()
