package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

const someTraces = `File: kestrel
Type: cpu
Duration: 3s, Total samples = 1.42s (47.30%)
-----------+-------------------------------------------------------
     150ms   internal/runtime/syscall/linux.Syscall6
             syscall.RawSyscall6
             github.com/kestrelmq/kestrel/netloop.sendNow
             github.com/kestrelmq/kestrel/netloop.(*conn).write
-----------+-------------------------------------------------------
      40ms   internal/runtime/syscall/linux.Syscall6
             syscall.RawSyscall6
             github.com/kestrelmq/kestrel/netloop.receiveNow
             github.com/kestrelmq/kestrel/netloop.(*driver).readable
-----------+-------------------------------------------------------
      30ms   internal/runtime/syscall/linux.Syscall6
             os.(*File).WriteAt
             github.com/kestrelmq/kestrel/segment.(*segmentFile).writeAt
             github.com/kestrelmq/kestrel/engine.(*journal).write
-----------+-------------------------------------------------------
      20ms   github.com/kestrelmq/kestrel/codec/memcache.scanNumber (inline)
             github.com/kestrelmq/kestrel/netloop.(*session).run
-----------+-------------------------------------------------------
      10ms   runtime.memmove
             github.com/kestrelmq/kestrel/engine.(*window).push
             github.com/kestrelmq/kestrel/netloop.(*session).run
-----------+-------------------------------------------------------
      1.5s   internal/runtime/syscall/linux.Syscall6
             os.(*File).WriteAt
             github.com/kestrelmq/kestrel/engine.(*Engine).background.func1
-----------+-------------------------------------------------------
     250ms   runtime.futex
             runtime.findRunnable
-----------+-------------------------------------------------------
`

func TestParseTraces(t *testing.T) {
	traces, err := parseTraces(someTraces)
	if err != nil {
		t.Fatal(err)
	}
	if len(traces) != 7 || traces[3].time != 20*time.Millisecond ||
		traces[3].frames[0] != "github.com/kestrelmq/kestrel/codec/memcache.scanNumber" ||
		traces[1].frames[2] != "github.com/kestrelmq/kestrel/netloop.receiveNow" {
		t.Errorf("parseTraces = %v", traces)
	}
	const want = `| share of the server's processor time, % | SET |
|---|--:|
| *all of it, µs a request* | 2.5 |
| *all of it, % of the time* | 50 |
| in the background: segments, expiry, syncs | 75.0 |
| read requests (recv) | 2.0 |
| send replies (send) | 7.5 |
| write the journal (pwrite) | 1.5 |
| decode requests, encode replies | 1.0 |
| queues, records and checksums | 0.5 |
| Go runtime, the rest | 12.5 |
`
	c := newColumn("SET", traces)
	c.spent = spent{requests: 1000, cpu: 2500 * time.Microsecond, wall: 5 * time.Millisecond}
	if got := table([]column{c}); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
	for _, bad := range []string{"", "-----\n soon f\n", "-----\n 10ms\n", "File: kestrel\n"} {
		if _, err := parseTraces(bad); err == nil {
			t.Errorf("parseTraces(%q): no error", bad)
		}
	}
}

// FuzzParseTraces checks that no text makes the parser crash.
func FuzzParseTraces(f *testing.F) {
	f.Add(someTraces)
	f.Fuzz(func(t *testing.T, text string) {
		if traces, err := parseTraces(text); err == nil {
			table([]column{newColumn("x", traces)})
		}
	})
}

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-window", "2s"}, io.Discard)
	if err != nil || o.window != 2*time.Second || o.cpus != [2]int{0, 1} {
		t.Errorf("parseOptions = %+v, %v", o, err)
	}
	for _, bad := range []string{"extra", "-window 1ms", "-nonsense"} {
		if _, err := parseOptions(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("parseOptions(%s): no error", bad)
		}
	}
}
