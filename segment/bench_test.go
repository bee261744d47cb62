package segment_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// benchLog is a log on the real disk that drops what is behind it.
type benchLog struct {
	*segment.Log
	segment uint64
}

func newBenchLog(b testing.TB, opts segment.Options) *benchLog {
	log, _, err := segment.Open(b.TempDir(), opts, nil)
	must(b, err)
	b.Cleanup(func() { must(b, log.Close()) })
	return &benchLog{Log: log, segment: 1}
}

// trim does what a caller does in the background when the log went on to another segment.
func (l *benchLog) trim(b *testing.B, at segment.Appended) {
	if at.Segment == l.segment {
		return
	}
	b.StopTimer()
	l.segment = at.Segment
	_, err := l.Sync()
	must(b, err)
	_, err = l.DropBefore(at.Segment)
	must(b, err)
	must(b, l.Prepare())
	b.StartTimer()
}

// recycle goes round until the tail is a file that was used before.
func (l *benchLog) recycle(b *testing.B) {
	buf := make([]byte, segment.FrameHeaderSize+64<<10)
	for l.segment < 6 {
		at, grown, err := l.Append(buf)
		must(b, err)
		buf = grown[:len(buf)]
		l.trim(b, at)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, payload := range []int{64, 1 << 10, 64 << 10} {
		for _, sync := range []string{"none", "each", "each-recycled"} {
			b.Run(fmt.Sprintf("payload=%s/sync=%s", bytesName(payload), sync), func(b *testing.B) {
				opts := segment.Options{SegmentSize: 16 << 20}
				if sync == "each-recycled" {
					opts.Spares = 2
				}
				l := newBenchLog(b, opts)
				if opts.Spares > 0 {
					l.recycle(b)
				}
				buf := make([]byte, segment.FrameHeaderSize+payload)
				b.SetBytes(int64(payload))
				b.ReportAllocs()
				for b.Loop() {
					at, grown, err := l.Append(buf)
					must(b, err)
					buf = grown[:segment.FrameHeaderSize+payload]
					if sync != "none" {
						_, err := l.Sync()
						must(b, err)
					}
					l.trim(b, at)
				}
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, payload := range []int{64, 1 << 10, 64 << 10} {
		b.Run("log=64MiB/payload="+bytesName(payload), func(b *testing.B) {
			dir := b.TempDir()
			log, _, err := segment.Open(dir, segment.Options{SegmentSize: 16 << 20}, nil)
			must(b, err)
			buf := make([]byte, segment.FrameHeaderSize+payload)
			total := 0
			for total < 64<<20 {
				_, grown, err := log.Append(buf)
				must(b, err)
				buf = grown[:segment.FrameHeaderSize+payload]
				total += payload
			}
			must(b, log.Close())
			b.SetBytes(int64(total))
			b.ReportAllocs()
			for b.Loop() {
				log, _, err := segment.Open(dir, segment.Options{SegmentSize: 1 << 20},
					func(segment.Frame) error { return nil })
				must(b, err)
				must(b, log.Close())
			}
		})
	}
}

// BenchmarkOpenAfterKill opens a log whose one segment, of 32 MiB, is written with zeros to its end
// as after a kill. Its rest is searched for what a torn tail could hide.
func BenchmarkOpenAfterKill(b *testing.B) {
	dir := b.TempDir()
	log, _, err := segment.Open(dir, segment.Options{SegmentSize: 32 << 20}, nil)
	must(b, err)
	_, _, err = log.Append(make([]byte, segment.FrameHeaderSize+64))
	must(b, err)
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	must(b, err)
	for _, file := range files { // no holes, however the log has reserved its room
		data, err := os.ReadFile(file)
		must(b, err)
		must(b, os.WriteFile(file, data, 0o600))
	}
	b.SetBytes(32 << 20)
	for b.Loop() {
		_, _, err := segment.Open(dir, segment.Options{SegmentSize: 32 << 20}, func(segment.Frame) error { return nil })
		must(b, err)
	}
}

func bytesName(n int) string {
	if n >= 1<<10 {
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

func TestAppendAndSyncAllocateNothing(t *testing.T) {
	l := newBenchLog(t, segment.Options{SegmentSize: 1 << 20})
	buf := make([]byte, segment.FrameHeaderSize+100)
	_, buf, err := l.Append(buf) // may grow it, once
	must(t, err)
	buf = buf[:segment.FrameHeaderSize+100]
	allocs := testing.AllocsPerRun(100, func() {
		if _, _, err := l.Append(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("Append and Sync make %v allocations, want 0", allocs)
	}
}
