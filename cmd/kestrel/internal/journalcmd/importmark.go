package journalcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/engine/backup"
	"github.com/kestrelmq/kestrel/segment"
)

// importMark is kept in the file "import" of a data directory. It is there from before the first
// item of an import is added until the last one is durable. A server does not start as long as it
// is there.
//
// Ids are given one by one. So with the first id of each queue the mark shows how many items of it an interrupted
// import has added. The import goes on where it stopped.
type importMark struct {
	Source string       `json:"source"` // directory
	Digest string       `json:"digest"` // of its files
	Queues []importGoal `json:"queues"`
}

// importGoal is what an import adds to one queue.
type importGoal struct {
	Name    string `json:"name"`
	FirstID uint64 `json:"first_id"`
	Items   int    `json:"items"`
}

func importMarkPath(dataDir string) string { return filepath.Join(dataDir, "import") }

// loadImportMark returns the mark of an import that was interrupted, or nil.
func loadImportMark(dataDir string) (*importMark, error) {
	path := importMarkPath(dataDir)
	if _, err := os.Lstat(path); err != nil {
		return nil, nil // if the directory is the reason, opening it says so
	}
	mark := new(importMark)
	src, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(src, mark)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, which says that an import is not finished, cannot be read: %w",
			path, err)
	}
	return mark, nil
}

// save makes the mark durable.
func (m *importMark) save(dataDir string) error {
	path := importMarkPath(dataDir)
	return writeDurably(path, path+".new", func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(m)
	}, segment.OS{}.SyncDir)
}

// goal returns what is to be added to the queue called name.
func (m *importMark) goal(name string) (importGoal, bool) {
	for _, g := range m.Queues {
		if g.Name == name {
			return g, true
		}
	}
	return importGoal{}, false
}

// checkRestored returns a *failure if a restore into the data directory was interrupted. It also does if the directory is
// a backup. That has files of other names, and would pass for an empty one.
func checkRestored(dataDir string) error {
	if backup.IsBackup(dataDir) {
		return cli.Failed("%s is a backup, and no data directory: 'kestrel restore %s --data-dir DATA' makes one of it,"+
			" and 'kestrel restore %s --check' says whether it is sound", dataDir, dataDir, dataDir)
	}
	if fileExists(backup.MarkPath(dataDir)) {
		return cli.Failed("a restore of a backup into the data directory %s was interrupted: run 'kestrel restore' of it"+
			" again; it begins anew", dataDir)
	}
	return nil
}

// CheckImported returns a *failure if an import into the data directory, or a restore, was interrupted.
func CheckImported(dataDir string) error {
	if err := checkRestored(dataDir); err != nil {
		return err
	}
	mark, err := loadImportMark(dataDir)
	if err != nil {
		return cli.Failed("%s", err)
	}
	if mark == nil {
		return nil
	}
	return cli.Failed("an import of %s into the data directory %s was interrupted: run 'kestrel journal"+
		" import' of it again, which goes on where it stopped, or remove %s to start with the part"+
		" that is there", mark.Source, dataDir, importMarkPath(dataDir))
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
