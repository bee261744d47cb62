package backupcmd

import (
	"io"
	"time"
)

// pacedReader reads at most rate bytes a second, so that the writer at the other end, and the disks of both, have
// time for others.
type pacedReader struct {
	r     io.Reader
	rate  int64
	began time.Time
	bytes int64
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	n, err := p.r.Read(b)
	p.bytes += int64(n)
	due := p.began.Add(time.Duration(float64(p.bytes) / float64(p.rate) * float64(time.Second)))
	time.Sleep(time.Until(due))
	return n, err
}
