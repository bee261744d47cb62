"""A client that Debian's thrift-compiler made of docs/kestrel.thrift: thrift_client.py PORT."""
import sys
import time

from kestrel import Kestrel
from kestrel.ttypes import Status
from thrift.Thrift import TApplicationException
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport


def want(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, want {expected!r}")
    print(f"{what}: ok")


def data(items):
    return [item.data for item in items]


# The compiler leaves the defaults of arguments out for Python.
def put(queue, items, expiration_msec=0):
    return c.put(queue, items, expiration_msec, 0, None, None)


def get(queue, max_items, timeout_msec=0, auto_abort_msec=0):
    return c.get(queue, max_items, timeout_msec, auto_abort_msec)


transport = TTransport.TFramedTransport(TSocket.TSocket("127.0.0.1", int(sys.argv[1])))
c = Kestrel.Client(TBinaryProtocol.TBinaryProtocol(transport))
transport.open()
want("put", put("th", [b"one", b"two", b"three", b"\x00\xff"]), 4)
want("peek", (c.peek("th").head_item, c.peek("th").items), (b"one", 4))
want("get", data(get("th", 2)), [b"one", b"two"])
items = get("th", 5, 0, 60000)
want("open", (data(items), all(i.id > 0 for i in items)), ([b"three", b"\x00\xff"], True))
want("abort", c.abort("th", {i.id for i in items}, 0), 2)
items = get("th", 5, 0, 60000)
want("open", data(items), [b"three", b"\x00\xff"])
want("confirm", c.confirm("th", {i.id for i in items}), 2)
want("confirm again", c.confirm("th", {i.id for i in items}), 0)
want("it is gone", get("th", 1), [])
started = time.monotonic()
want("timed get of nothing", get("th", 1, 300), [])
want("it waited", time.monotonic() - started >= 0.3, True)
put("th", [b"four"])
want("timed get", data(get("th", 1, 5000)), [b"four"])
put("th", [b"five"])
items = get("th", 1, 0, 200)
want("open for 200 ms", data(items), [b"five"])
want("it is back by itself", data(get("th", 1, 5000)), [b"five"])
put("th", [b"six"])
c.flush_queue("th")
want("flush", c.peek("th").items, 0)
put("th", [b"seven"])
c.delete_queue("th")
want("delete", c.peek("th").items, 0)
put("th", [b"eight"], 1)
time.sleep(0.05)
want("expired", get("th", 1), [])
want("status", c.current_status(), Status.UP)
want("version", c.get_version(), "3.0.0")
try:
    put("a/b", [b"x"])
    got = None
except TApplicationException as e:
    got = e.type
want("an illegal name", got, 6)
transport.close()
