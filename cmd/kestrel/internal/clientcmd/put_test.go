package clientcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestPieces tests that an item is put at once when the next one has not come whole. It was kept until then, and lost if a
// signal came first.
func TestPieces(t *testing.T) {
	broken := errors.New("nothing more comes")
	in := io.MultiReader(strings.NewReader("one\ntwo\nhal"), iotest.ErrReader(broken))
	var got []string
	err := pieces(&session{in: in}, '\n', func(item []byte, more bool) error {
		got = append(got, fmt.Sprint(string(item), " ", more))
		return nil
	})
	if want := []string{"one true", "two false"}; !errors.Is(err, broken) || !slices.Equal(got, want) {
		t.Errorf("pieces hands on %q, and returns %v, want %q, and that %v", got, err, want, broken)
	}
}
