package backupcmd

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		began := time.Now()
		n, err := io.Copy(io.Discard, &pacedReader{r: strings.NewReader(strings.Repeat("x", size)), rate: size / 8})
		if took := time.Since(began); n != size || err != nil || took != 8*time.Second {
			t.Errorf("%d bytes in %v, %v, want %d in 8s", n, took, err, size)
		}
	})
}
