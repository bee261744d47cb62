package overhttp

import (
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/client/backend/backendtest"
)

// TestSuite runs the suite over a server in front of a store, and over one in front of that, unless -short.
func TestSuite(t *testing.T) {
	for _, c := range backendtest.Names() {
		t.Run(c, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := front(t, memory(t))
				backendtest.RunCase(t, c, remote(t, l))
			})
		})
		if testing.Short() {
			continue
		}
		t.Run("proxy/"+c, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := front(t, memory(t))
				proxy, _ := front(t, remote(t, l))
				backendtest.RunCase(t, c, remote(t, proxy))
			})
		})
	}
}
