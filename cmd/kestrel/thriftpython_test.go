package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndThriftPython generates a client from docs/kestrel.thrift with the Thrift compiler. The client uses every
// call of the service, with the Apache library for Python. The test needs both installed.
func TestEndToEndThriftPython(t *testing.T) {
	python, compiler := pythonWith("thrift"), ""
	if path, err := exec.LookPath("thrift"); err == nil {
		compiler = path
	}
	if python == "" || compiler == "" {
		notInstalled(t, "no Thrift compiler, or no Thrift for Python (Debian: thrift-compiler, python3-thrift)")
	}
	dir := t.TempDir()
	idl, err := filepath.Abs("../../docs/kestrel.thrift")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-out", dir, "--gen", "py", idl).CombinedOutput(); err != nil {
		t.Fatalf("thrift: %v\n%s", err, out)
	}
	p := clitest.Serve(t, "--max-open-transactions", "10")
	out, err := exec.Command(python, "-c", thriftScript, dir, p.Thrift).CombinedOutput()
	if err != nil || string(out) != "done\n" {
		t.Errorf("the script: %v\n%s", err, out)
	}
}

// thriftScript is given the directory of the client and the address of the server.
const thriftScript = `
import sys, time
sys.path.insert(0, sys.argv[1])
from kestrel import Kestrel
from kestrel.ttypes import OnDuplicate, Status
from thrift.Thrift import TApplicationException
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

def connect():
    host, port = sys.argv[2].rsplit(":", 1)
    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    transport.open()
    return Kestrel.Client(TBinaryProtocol.TBinaryProtocol(transport))

def check(got, want):
    if got != want:
        sys.exit("got %r, want %r" % (got, want))

a, b = connect(), connect()
check(a.get_version()[0], "3")
check(a.current_status(), Status.UP)
check(a.put("q", [b"one", b"two"], 0, 0, None, None), 2)
items = a.get("q", 2, 0, 60000)
check([(i.data, i.deliveries) for i in items], [(b"one", 1), (b"two", 1)])
check(b.touch("q", items[0].id, 90000, None, None, None) > time.time() * 1000 + 80000, True)
check(b.touch("q", 4711, 90000, None, None, None), 0)
check(b.release("q", {items[0].id}, 0), 1)
check(b.abort("q", {items[1].id, 4711}, None), 1)
items = a.get("q", 2, 0, 60000)
check([(i.data, i.deliveries) for i in items], [(b"one", 1), (b"two", 2)])
check(b.abort("q", {items[0].id}, 60000), 1)
check(b.reject("q", {items[1].id}), 1)
check(b.confirm("q", {items[0].id, items[1].id}), 0)
check(a.get("q", 2, 0, 0), [])
check([i.data for i in a.get("q_dead", 2, 0, 0)], [b"two"])
check(a.put("q", [b"later"], 0, 300, None, None), 1)
check(a.peek("q").head_item, None)
check([i.data for i in a.get("q", 1, 5000, 0)], [b"later"])
check(a.put("k", [b"1", b"2"], 0, 0, [b"K", b"L"], None), 2)
check(a.put("k", [b"3"], 0, 0, [b"K"], OnDuplicate.OVERWRITE), 1)
check(a.put("k", [b"4"], 0, 0, [b"K"], OnDuplicate.ONLY_NEW), 0)
check(a.put("k", [b"5"], 0, 0, [b"M"], OnDuplicate.ONLY_REPLACE), 0)
check(a.put("k", [b"6"], 0, 60000, [b"M"], OnDuplicate.ONLY_NEW), 1)
check([(i.item_id, i.data, i.key, i.due_msec) for i in a.browse("k", 0, 0, False, None, None)],
    [(1, b"3", b"K", None), (2, b"2", b"L", None)])
check([(i.item_id, i.due_msec > i.added_msec) for i in b.browse("k", 3, 10, True, None, None)], [(3, True)])
check([i.data for i in b.browse("k", None, None, None, None, b"L")], [b"2"])
check([i.data for i in b.browse("k", None, None, None, 3, None)], [b"6"])
check(b.touch("k", None, None, 1, None, 60000) > time.time() * 1000 + 50000, True)
check(b.touch("k", None, None, None, b"K", 0), 2**63 - 1)
check(b.touch("k", None, None, 9, None, 0), 0)
check((b.remove("k", 2, None), b.remove("k", 2, None), b.remove("k", None, b"M")), (1, 0, 1))
item = a.get_any(["none", "k"], 1000, 60000, None)[0]
check((item.data, item.key, item.queue_name, item.deliveries), (b"3", b"K", "k", 1))
check(b.abort("k", {item.id}, None), 1)
check([(i.data, i.id, i.queue_name) for i in a.get_any(["none", "k"], 0, 0, [3, 1])], [(b"3", 0, "k")])
check(a.get_any(["none", "k"], 10, 0, None), [])
for bad in (lambda: a.put("k", [b"x"], 0, 0, [b"a/b"], None), lambda: a.put("k", [b"x"], 0, 0, [b"a", b"b"], None),
    lambda: a.get_any([], 0, 0, None), lambda: a.get_any(["k"], 0, 0, [0]), lambda: a.browse("k", 0, 10001, False, None, None),
    lambda: a.remove("k", None, None), lambda: a.touch("k", None, None, 1, None, -1),
    lambda: a.put("q", [b"x"], 0, -1, None, None), lambda: a.touch("q", 1, 0, None, None, None), lambda: a.release("q", {1}, -1)):
    try:
        bad()
        sys.exit("no exception")
    except TApplicationException as e:
        check(e.type, TApplicationException.INTERNAL_ERROR)
a.delete_queue("q")
print("done")
`
