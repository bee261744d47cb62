package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/engine"
)

// TestChangesBeforeDamage removes, or hides, all messages of a queue of which the last is damaged on disk. Those before
// it are changed, and shown: no other request would show them.
func TestChangesBeforeDamage(t *testing.T) {
	for _, hide := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			options := engine.DefaultQueueOptions()
			options.MaxMemorySize = 1
			s, err := open(dir, options, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			q := backend.Queue{Account: "a", Name: "q"}
			for _, id := range []string{"m0", "m1", "m2"} {
				k := backend.Key{Queue: q, ID: id}
				if _, err := s.Put(t.Context(), k, []byte("body of "+id), backend.Attributes{TTL: backend.Forever}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // until it is on disk, in a frame of its own
			}
			damaged := 0
			filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
				data, _ := os.ReadFile(path)
				if bytes.Contains(data, []byte("body of m2")) && filepath.Ext(path) == ".run" {
					damaged++
					os.WriteFile(path, bytes.Replace(data, []byte("body of m2"), []byte("damage !!!"), 1), 0)
				}
				return nil
			})
			var list []backend.Message
			if hide {
				list, err = s.UpdateMessages(t.Context(), q, backend.Attributes{Hide: backend.DefaultTTL}, backend.Match{Detail: backend.IDs})
			} else {
				list, err = s.DeleteMessages(t.Context(), q, backend.Match{Detail: backend.IDs})
			}
			if damaged != 1 || err != nil || len(list) != 2 || list[0].ID != "m0" {
				t.Errorf("hide %t, %d damaged: %v, %v", hide, damaged, list, err)
			}
		})
	}
}
