package clitest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
)

// AddedAt is when the items of these tests were added, in ms.
const AddedAt = 1700000000000

// Adds are journal records that add items.
func Adds(items ...string) []byte {
	var b []byte
	for i, data := range items {
		b = oldjournal.Append(b, &oldjournal.Record{
			Op: oldjournal.OpAddX, Added: AddedAt + int64(i), Data: []byte(data),
		})
	}
	return b
}

// Record is one journal record without an item.
func Record(op oldjournal.Op, xid int32) []byte {
	return oldjournal.Append(nil, &oldjournal.Record{Op: op, XID: xid})
}

// WriteOld writes a directory of journals.
func WriteOld(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "old")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// WantText tests that got has every text in it.
func WantText(t testing.TB, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("got %q, which lacks %q", got, text)
		}
	}
}

// SnapshotOf reads a data directory. Close the snapshot.
func SnapshotOf(t testing.TB, data string) *engine.Snapshot {
	t.Helper()
	s, err := engine.Inspect(engine.Options{
		Dir: data, Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Held is what the queues of a data directory hold: the items' data, by queue, in order.
func Held(t testing.TB, data string) map[string]string {
	t.Helper()
	s := SnapshotOf(t, data)
	defer s.Close()
	queues := make(map[string]string)
	for _, q := range s.Queues {
		var items []string
		s.Each(q.Name, func(it engine.Item) bool {
			items = append(items, string(it.Data))
			return true
		})
		queues[q.Name] = strings.Join(items, " ")
	}
	return queues
}

// WantHeld tests that the queues of a data directory hold what want says, as [Held] returns it.
func WantHeld(t testing.TB, data string, want map[string]string) {
	t.Helper()
	if got := Held(t, data); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s holds %q, want %q", data, got, want)
	}
}

// FileState is the names, digests and times of all that is below a directory.
func FileState(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%x\n", sha256.Sum256(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
