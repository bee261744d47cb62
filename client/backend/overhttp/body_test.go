package overhttp

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/codec/burrow"
)

// TestAnnouncedBody tests that a body takes memory as it comes. A client that announces the largest one, and sends
// little of it, has the proxy keep little.
func TestAnnouncedBody(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := readAll(strings.NewReader("hello"), burrow.DefaultMaxBody)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "hello" {
		t.Errorf("a body that breaks off = %q, %v", body, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("a body of which 5 bytes came took %d", took)
	}
	for _, size := range []int{0, 1, firstRead, firstRead + 1, 3_000_000} {
		want := strings.Repeat("x", size)
		if body, err := readAll(strings.NewReader(want), int64(size)); err != nil || string(body) != want {
			t.Errorf("a body of %d bytes = %d bytes, %v", size, len(body), err)
		}
	}
}
