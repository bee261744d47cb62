package embedded

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
	"github.com/kestrelmq/kestrel/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite runs the suite over a directory and over memory, in fake time.
func TestSuite(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (*Store, error){
		"directory": func(t *testing.T) (*Store, error) { return Open(t.TempDir(), Options{Sync: engine.SyncNever}) },
		"synced":    func(t *testing.T) (*Store, error) { return Open(t.TempDir(), Options{}) },
		"memory":    func(*testing.T) (*Store, error) { return Memory(Options{}) },
	} {
		if testing.Short() && name == "synced" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, c := range backendtest.Names() {
				t.Run(c, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, err := open(t)
						if err != nil {
							t.Fatal(err)
						}
						defer s.Close()
						var b backend.Backend = s
						backendtest.RunCase(t, c, b)
						if !s.closed.Load() {
							if err := s.engine.Verify(); err != nil {
								t.Error(err)
							}
						}
					})
				})
			}
		})
	}
}
