"""Puts messages, and has four workers take, finish and give them back. Python's own library only."""
import json
import sys
import threading
import urllib.error
import urllib.request

base = sys.argv[1] + "/v1.0/" + sys.argv[2] + "/jobs"


def ask(method, path="", body=None):
    request = urllib.request.Request(base + path, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert reply.headers["Content-Length"] is not None, (method, path)
            return reply.status, reply.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


done, dropped, lock = {}, set(), threading.Lock()


def work():
    for _ in range(300):
        status, text = ask("POST", "?limit=2&hide=60&detail=all&wait=1")
        if status == 404:
            with lock:
                if len(done) == 50:
                    return
            continue
        assert status == 200, (status, text)
        for message in json.loads(text):
            name = message["id"]
            assert message["body"] == "body of " + name and message["hide"] == 60, message
            with lock:
                first = name.endswith("7") and name not in dropped
                if first:
                    dropped.add(name)
            if first:  # give it back, once
                assert ask("POST", "/" + name + "?hide=0")[0] == 204
                continue
            assert ask("DELETE", "/" + name)[0] == 204
            with lock:
                done[name] = done.get(name, 0) + 1


workers = [threading.Thread(target=work) for _ in range(4)]
for i in range(50):
    assert ask("PUT", "/m%d" % i, b"body of m%d" % i)[0] == 201
    if i == 10:
        for w in workers:
            w.start()
for w in workers:
    w.join()
assert ask("GET", "?match_hidden=true")[0] == 404
assert all(n == 1 for n in done.values()), done
print("%d messages, each once" % len(done))
