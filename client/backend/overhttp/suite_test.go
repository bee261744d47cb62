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
				store := memory(t)
				defer store.Close()
				l, _, stop := front(store)
				defer stop()
				first := remote(t, l)
				defer first.Close()
				backendtest.RunCase(t, c, first)
			})
		})
		if testing.Short() {
			continue
		}
		t.Run("proxy/"+c, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory(t)
				defer store.Close()
				l, _, stop := front(store)
				defer stop()
				first := remote(t, l)
				defer first.Close()
				l2, _, stop2 := front(first)
				defer stop2()
				second := remote(t, l2)
				defer second.Close()
				backendtest.RunCase(t, c, second)
			})
		})
	}
}
