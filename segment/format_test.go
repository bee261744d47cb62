package segment

import (
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestPayloadChecksum tests that the sum of a payload is the same in pieces and in one.
func TestPayloadChecksum(t *testing.T) {
	payload := make([]byte, 3*sumPiece+1)
	for i := range payload {
		payload[i] = byte(i * i >> 3)
	}
	for _, n := range []int{0, 1, 31, sumPiece - 1, sumPiece, sumPiece + 1, 2 * sumPiece, 3*sumPiece + 1} {
		if got, want := payloadChecksum(payload[:n]), xxhash.Sum64(payload[:n]); got != want {
			t.Errorf("the sum of %d bytes is %x, want %x", n, got, want)
		}
	}
}
