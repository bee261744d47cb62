package config

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// TestExplainUnknownHost tests that the host is named which is not known, and not the address of other listeners.
func TestExplainUnknownHost(t *testing.T) {
	err := &net.OpError{Op: "listen", Net: "tcp", Err: &net.DNSError{Name: "nowhere", Server: "10.0.0.1:53", Err: "no such host"}}
	const want = "cannot listen on nowhere: no such host: choose an address of this machine with --listen or [[listener]]"
	if got := Explain(fmt.Errorf("listen for text: %w", err), Default()).Text; got != want {
		t.Errorf("Explain(%v) = %q, want %q", err, got, want)
	}
}

// TestExplainNewerRelease tests that what a newer release has written is not called damaged, and that
// the way back is said.
func TestExplainNewerRelease(t *testing.T) {
	c := Default()
	err := fmt.Errorf("open journal: journal/0000000001.seg: %w", segment.ErrUnknownVersion)
	got := Explain(err, c).Text
	for _, want := range []string{
		"the data directory " + c.Engine.Dir + " is not damaged", "a newer release of kestrel wrote it",
		"nothing was changed", "a copy of the directory from before the upgrade", "0000000001.seg: unknown format version"} {
		if !strings.Contains(got, want) {
			t.Errorf("Explain(%v) = %q, which does not say %q", err, got, want)
		}
	}
}
