package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressText(t *testing.T) {
	for _, tt := range []struct {
		unit        Unit
		done, total int64
		since       time.Duration
		want        string
	}{
		{Items, 0, 0, 0, "moved 0 items"},
		{Items, 1, 0, time.Second, "moved 1 item  1/s"},
		{Items, 0, 1000, time.Second, "[....................]   0%  moved 0 of 1,000 items"},
		{Items, 250, 1000, time.Second, "[#####...............]  25%  moved 250 of 1,000 items  250/s  3s left"},
		{Items, 1000, 1000, 2 * time.Second, "[####################] 100%  moved 1,000 of 1,000 items  500/s  0s left"},
		{Bytes, 256 << 20, 1 << 30, 2 * time.Second, "[#####...............]  25%  moved 256.0 MiB of 1.00 GiB  128.0 MiB/s  6s left"},
		{Bytes, 3 << 20, 0, time.Second, "moved 3.0 MiB  3.0 MiB/s"},
	} {
		if got := progressText("moved", tt.unit, tt.done, tt.total, tt.since); got != tt.want {
			t.Errorf("progress of %d of %d: %q, want %q", tt.done, tt.total, got, tt.want)
		}
	}
}

// TestFitProgress tests that a progress fits a narrow terminal, which cannot draw a line again that wraps.
func TestFitProgress(t *testing.T) {
	const text = "[#####...............]  25%  moved 250 of 1,000 items  250/s  3s left"
	for width, want := range map[int]string{0: text, 80: text, len(text) + 1: text,
		len(text): "25%  moved 250 of 1,000 items  250/s  3s left", 40: "25%  moved 250 of 1,000 items  250/s  3", 1: ""} {
		if got := FitProgress(text, width); got != want {
			t.Errorf("in %d columns: %q, want %q", width, got, want)
		}
	}
}

// TestProgressReader counts what is read, against a total that is heard of late. A progress without a terminal says
// nothing.
func TestProgressReader(t *testing.T) {
	var said strings.Builder
	p := NewProgress(&said, "copied", Bytes, 0)
	r := p.Reader(strings.NewReader("hello, world"))
	r.(interface{ Expect(int64) }).Expect(24)
	if b, err := io.ReadAll(r); string(b) != "hello, world" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	p.End()
	if p.Done() != 12 || p.Total() != 24 || said.Len() > 0 {
		t.Errorf("%d of %d bytes are done, and it said %q; want 12 of 24 and nothing", p.Done(), p.Total(), &said)
	}
	if none := TerminalProgress(&said, "copied", Bytes, 1); none != nil {
		t.Error("a writer that is no terminal has a progress")
	} else {
		none.Add(1)
		none.Expect(2)
		none.End()
		if b, err := io.ReadAll(none.Reader(strings.NewReader("x"))); string(b) != "x" || err != nil {
			t.Errorf("without a progress: read %q, %v", b, err)
		}
	}
}
