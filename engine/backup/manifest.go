package backup

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"time"
)

const (
	manifestName = "MANIFEST"
	errorName    = "ERROR" // in place of MANIFEST: why there is none
	// format is that of manifests.
	format = 1
	// maxManifest bounds what is read of one, in bytes.
	maxManifest = 256 << 20
)

// Manifest says what a backup consists of. It is JSON, in the file MANIFEST.
type Manifest struct {
	Format int       `json:"format"`
	Began  time.Time `json:"began"` // the moment whose state it has
	Files  []File    `json:"files"`
	// Withheld are queues that the server did not serve, because their files were damaged. They are in the
	// backup as they were.
	Withheld []string `json:"withheld,omitempty"`
}

// File is one file of a backup.
type File struct {
	Name string `json:"name"` // in the data directory
	Size int64  `json:"size"` // bytes
	// Sum is its xxHash64, in 16 hexadecimal digits. In the manifest of a stream it is "" if the
	// receiver has the file.
	Sum string `json:"sum,omitempty"`
	// Key names the content of a file that never changes, in a stream.
	Key uint64 `json:"key,omitempty,string"`
	// Stored is its path in the directory of the backup.
	Stored string `json:"stored,omitempty"`
}

// fileNames are the names that files of a backup may have.
var fileNames = regexp.MustCompile(`^(journal/[0-9]{10,20}\.seg|backlog/[0-9]{10,20}\.run)$`)

// parseManifest decodes a manifest, and checks it.
func parseManifest(src io.Reader) (*Manifest, error) {
	m := new(Manifest)
	if err := json.NewDecoder(io.LimitReader(src, maxManifest)).Decode(m); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", manifestName, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("%s has format %d, and this release reads format %d only: use a newer release", manifestName, m.Format, format)
	}
	for _, f := range m.Files {
		if !fileNames.MatchString(f.Name) || f.Size < 0 {
			return nil, fmt.Errorf("%s names a file that no backup has: %q, %d bytes", manifestName, f.Name, f.Size)
		}
		if f.Stored != "" && !storedNames.MatchString(f.Stored) {
			return nil, fmt.Errorf("%s: %q is not a path in a backup", manifestName, f.Stored)
		}
	}
	return m, nil
}

func (m *Manifest) encode() ([]byte, error) { return json.MarshalIndent(m, "", " ") }

// storedNames match the names of files in a directory of backups. Such a name is the one in the data directory, the
// sum, and "once" if the bytes of the copied file may change.
var storedNames = regexp.MustCompile(`^((?:journal|backlog)/[0-9]{10,20}\.(?:seg|run))\.([0-9a-f]{16})(\.once)?$`)

func storedName(name, sum string, once bool) string {
	name += "." + sum
	if once {
		name += ".once"
	}
	return name
}

// parseStored returns what storedName was given.
func parseStored(stored string) (name, sum string, once, ok bool) {
	m := storedNames.FindStringSubmatch(stored)
	if m == nil {
		return "", "", false, false
	}
	return m[1], m[2], m[3] != "", true
}

func sumText(sum uint64) string {
	s := strconv.FormatUint(sum, 16)
	return "0000000000000000"[len(s):] + s
}

// dirs are the directories that files of a backup are in.
var dirs = [...]string{"journal", "backlog"}

func under(dir string) []string {
	var paths []string
	for _, d := range dirs {
		paths = append(paths, path.Join(dir, d))
	}
	return paths
}
