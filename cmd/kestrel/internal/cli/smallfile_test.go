package cli

import (
	"strings"
	"testing"
)

// TestSmallFileEndless names a file without an end wherever a command reads one whole.
func TestSmallFileEndless(t *testing.T) {
	for name, read := range map[string]func() error{
		"a file":       func() error { _, err := ReadSmallFile("/dev/zero"); return err },
		"an authority": func() error { _, err := Credentials{CA: "/dev/zero"}.Config(); return err },
		"a certificate": func() error {
			_, err := Credentials{Certificate: "/dev/zero", Key: "/dev/zero"}.Config()
			return err
		},
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), "/dev/zero is larger than 1 MiB") {
			t.Errorf("%s: %v, want that it is too large", name, err)
		}
	}
}
