package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http/httputil"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const (
	listingPiece = 64 << 10             // bytes that the reader takes at a time
	listingPause = 2 * time.Millisecond // before each
	listingMost  = 16 << 20             // bytes that the server may take for a list of any length
	listingLooks = 10                   // looks at the heap while the list is read
)

// listing measures what memory the server takes while a client reads the list of a million messages slowly.
func (b *bench) listing(ctx context.Context) error {
	s, err := b.startKestrel(ctx, "")
	if err != nil {
		return err
	}
	defer s.Kill()
	n := b.of(1_000_000)
	if err := fill(s, n); err != nil {
		return err
	}
	before, err := s.memory()
	if err != nil {
		return err
	}
	if err := spawn.ResetPeak(s.PID); err != nil {
		return err
	}
	c, err := dial(s.http)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(request("GET", "/v1.0/default/list?detail=all", "")); err != nil {
		return err
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == len("\r\n") {
			break
		}
	}
	began := time.Now()
	list := &slowList{from: httputil.NewChunkedReader(c.in)}
	var heaps []float64
	for !list.over {
		c.SetDeadline(time.Now().Add(askWait))
		if err := list.read(b.of(150 << 20 / listingPiece / listingLooks)); err != nil {
			return err
		}
		heap, err := s.heap()
		if err != nil {
			return err
		}
		heaps = append(heaps, float64(heap-before.heap))
	}
	if list.messages != n {
		return fmt.Errorf("the list has %d messages, want %d", list.messages, n)
	}
	peak, err := spawn.Peak(s.PID)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.log, "listing: %d messages, %s in %v\n", n, figures.Bytes(list.bytes), time.Since(began).Round(time.Millisecond))
	b.table(fmt.Sprintf("What the server takes more while a list of %s messages, %s, is read in %.0f s", figures.Thousands(int64(n)),
		figures.Bytes(list.bytes), time.Since(began).Seconds()), "measure", "MiB")
	g := goal{most: listingMost >> 20, unit: " MiB"}
	for _, m := range []struct {
		name  string
		bytes float64
	}{
		{"heap in use, behind a collection: the most", quantile(heaps, 1)},
		{"resident: the peak", float64(peak - before.resident)},
	} {
		mib := m.bytes / (1 << 20)
		b.row(mib, g, m.name, fmt.Sprintf("%.1f", mib))
	}
	b.endTable()
	return nil
}

// slowList reads a list slowly.
type slowList struct {
	from     io.Reader
	piece    [listingPiece]byte
	bytes    int64
	messages int
	rest     []byte // of the piece before: what may be the beginning of a message
	over     bool
}

var messageBegins = []byte(`{"body":`)

// read reads so many pieces, each after a pause, and counts the messages.
func (l *slowList) read(pieces int) error {
	for range pieces {
		time.Sleep(listingPause)
		n, err := io.ReadFull(l.from, l.piece[:])
		l.bytes += int64(n)
		l.rest = append(l.rest, l.piece[:n]...)
		l.messages += bytes.Count(l.rest, messageBegins)
		if i := bytes.LastIndex(l.rest, messageBegins); i >= 0 {
			l.rest = l.rest[i+len(messageBegins):]
		}
		l.rest = append([]byte(nil), l.rest[max(len(l.rest)-len(messageBegins)+1, 0):]...)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			l.over = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill puts n messages of 64 bytes to queue list of account default.
func fill(s *server, n int) error {
	const batch = 500
	c, err := dial(s.memcache)
	if err != nil {
		return err
	}
	defer c.Close()
	one := fmt.Appendf(nil, "set list 0 0 %d\r\n%s\r\n", bodySize, item())
	for left := n; left > 0; left -= batch {
		k := min(batch, left)
		c.SetDeadline(time.Now().Add(askWait))
		if _, err := c.Write(bytes.Repeat(one, k)); err != nil {
			return err
		}
		for range k {
			if _, err := c.expectLines(1, "STORED"); err != nil {
				return err
			}
		}
	}
	return nil
}
