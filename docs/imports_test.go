package docs

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/kestrelmq/kestrel"
	root   = ".." // of the tree
)

// mayImport lists, for each package, which of our packages it may import, tests included. A package
// may import itself. ARCHITECTURE.md has the arrows between folders.
var mayImport = map[string]string{
	"codec/burrow":     "",
	"codec/memcache":   "",
	"codec/oldjournal": "",
	"codec/text":       "",
	"codec/thrift":     "",

	"segment":                         "segment/segmenttest segment/segmenttest/failingdisk",
	"segment/segmenttest":             "segment",
	"segment/segmenttest/failingdisk": "",

	"engine": "engine/histogram engine/internal/accountname engine/internal/alarm engine/internal/alias engine/internal/diskroom engine/internal/aside engine/internal/audit engine/internal/dirlock" +
		" engine/internal/hidden engine/internal/trim engine/internal/idset engine/internal/item" +
		" engine/internal/journal engine/internal/keyindex engine/internal/list engine/internal/machine engine/internal/namehash engine/internal/marks engine/internal/nap engine/internal/openfiles engine/internal/processor engine/internal/queuename engine/internal/record" +
		" engine/internal/repair engine/internal/replay engine/internal/retain engine/internal/runs engine/internal/worklist" +
		" segment segment/segmenttest",
	"engine/backup":               "engine engine/internal/dirlock engine/internal/processor segment segment/segmenttest",
	"engine/internal/accountname": "",
	"engine/internal/alarm":       "engine/internal/item engine/internal/list",
	"engine/internal/namehash":    "",
	"engine/internal/aside":       "engine/internal/idset engine/internal/item",
	"engine/internal/audit": "engine/internal/hidden engine/internal/idset engine/internal/item engine/internal/marks engine/internal/record engine/internal/runs" +
		" segment segment/segmenttest",
	"engine/internal/dirlock":   "segment",
	"engine/internal/hidden":    "engine/internal/idset engine/internal/item engine/internal/keyindex engine/internal/list engine/internal/record engine/internal/runs segment segment/segmenttest",
	"engine/internal/trim":      "segment",
	"engine/internal/idset":     "",
	"engine/internal/journal":   "engine/histogram engine/internal/item engine/internal/record segment segment/segmenttest",
	"engine/internal/item":      "segment",
	"engine/internal/keyindex":  "segment segment/segmenttest",
	"engine/internal/list":      "",
	"engine/internal/machine":   "",
	"engine/internal/marks":     "engine/internal/idset engine/internal/record engine/internal/runs segment segment/segmenttest",
	"engine/internal/nap":       "",
	"engine/internal/openfiles": "",
	"engine/internal/processor": "",
	"engine/internal/queuename": "engine/internal/accountname",
	"engine/internal/worklist":  "",
	"engine/internal/record":    "engine/internal/idset engine/internal/item engine/internal/runs segment",
	"engine/internal/repair": "engine/internal/dirlock engine/internal/hidden engine/internal/idset engine/internal/item engine/internal/journal engine/internal/keyindex" +
		" engine/internal/marks engine/internal/record engine/internal/runs segment segment/segmenttest",
	"engine/internal/retain": "engine/internal/processor segment segment/segmenttest",
	"engine/internal/replay": "engine/internal/trim engine/internal/idset engine/internal/item engine/internal/record" +
		" engine/internal/repair engine/internal/runs segment segment/segmenttest",
	"engine/internal/runs": "engine/internal/idset engine/internal/item engine/internal/keyindex segment segment/segmenttest",
	"engine/histogram":     "",

	"engine/internal/alias":    "engine/internal/item",
	"engine/internal/diskroom": "segment segment/segmenttest",

	"access": "",

	"netloop":        "access codec/burrow codec/memcache codec/text codec/thrift engine engine/histogram netloop/ports netloop/sealed segment segment/segmenttest",
	"netloop/admin":  "access engine engine/backup engine/histogram netloop netloop/ports netloop/sealed segment/segmenttest",
	"netloop/certs":  "",
	"netloop/ports":  "",
	"netloop/sealed": "",

	"client":                  "access client/discovery client/internal/wire codec/memcache engine netloop netloop/certs netloop/ports",
	"client/discovery":        "client/discovery/zktest",
	"client/discovery/zktest": "",
	"client/internal/wire":    "codec/memcache",

	"client/backend":             "client codec/burrow",
	"client/backend/backendtest": "client/backend",
	"client/backend/embedded":    "client/backend client/backend/backendtest codec/burrow engine segment/segmenttest",
	"client/backend/overhttp":    "client/backend client/backend/backendtest client/backend/embedded codec/burrow",

	"client/backend/spread": "client client/backend client/backend/backendtest client/backend/embedded client/backend/overhttp",
	"client/backend/sqlite": "client/backend client/backend/backendtest codec/burrow",
	"client/backends": "client/backend client/backend/backendtest client/backend/embedded client/backend/overhttp" +
		" client/backend/spread client/backend/sqlite engine netloop",

	"cmd/dist": "",
	"cmd/kestrel": "client/discovery cmd/kestrel/internal/backupcmd cmd/kestrel/internal/burrowcmd cmd/kestrel/internal/cli cmd/kestrel/internal/clientcmd cmd/kestrel/internal/clitest cmd/kestrel/internal/config" +
		" cmd/kestrel/internal/journalcmd cmd/kestrel/internal/loadcmd cmd/kestrel/internal/plancmd cmd/kestrel/internal/scalaconfig" +
		" access client client/discovery/zktest cmd/kestrel/internal/usercmd codec/memcache codec/oldjournal codec/thrift engine netloop netloop/admin netloop/certs netloop/ports",
	"cmd/kestrel/internal/plancmd": "cmd/kestrel/internal/cli cmd/kestrel/internal/clitest cmd/kestrel/internal/config engine loadtest/figures loadtest/spawn",
	"cmd/kestrel/internal/usercmd": "access cmd/kestrel/internal/cli",
	"cmd/kestrel/internal/burrowcmd": "client/backend client/backend/overhttp client/backends cmd/kestrel/internal/cli" +
		" cmd/kestrel/internal/clitest codec/burrow engine",
	"cmd/kestrel/internal/backupcmd": "cmd/kestrel/internal/cli cmd/kestrel/internal/clitest cmd/kestrel/internal/config" +
		" cmd/kestrel/internal/journalcmd engine engine/backup segment",
	"cmd/kestrel/internal/cli": "loadtest/figures",
	"cmd/kestrel/internal/clientcmd": "client cmd/kestrel/internal/cli cmd/kestrel/internal/clitest" +
		" cmd/kestrel/internal/sample cmd/kestrel/internal/top loadtest/figures segment",
	"cmd/kestrel/internal/clitest": "cmd/kestrel/internal/cli codec/oldjournal engine",
	"cmd/kestrel/internal/config":  "access client/discovery cmd/kestrel/internal/cli engine netloop netloop/certs netloop/ports segment",
	"cmd/kestrel/internal/journalcmd": "cmd/kestrel/internal/cli cmd/kestrel/internal/clitest" +
		" cmd/kestrel/internal/config codec/oldjournal engine engine/backup segment loadtest/figures",
	"cmd/kestrel/internal/loadcmd": "cmd/kestrel/internal/cli cmd/kestrel/internal/clitest" +
		" cmd/kestrel/internal/config loadtest loadtest/figures loadtest/report loadtest/scenario loadtest/spawn netloop",
	"cmd/kestrel/internal/sample":      "client",
	"cmd/kestrel/internal/top":         "client cmd/kestrel/internal/cli cmd/kestrel/internal/sample loadtest/figures",
	"cmd/kestrel/internal/scalaconfig": "client/discovery cmd/kestrel/internal/config engine",

	"loadtest":            "codec/memcache codec/thrift loadtest/testserver",
	"loadtest/figures":    "",
	"loadtest/report":     "loadtest/figures",
	"loadtest/scenario":   "codec/memcache codec/thrift loadtest loadtest/figures loadtest/spawn loadtest/testserver",
	"loadtest/spawn":      "",
	"loadtest/testserver": "codec/thrift",

	"bench/backlog":       "bench/peer bench/peer/peertest loadtest loadtest/figures loadtest/spawn segment",
	"bench/goclient":      "client loadtest loadtest/spawn",
	"bench/delayed":       "engine",
	"bench/idle":          "",
	"bench/instructions":  "",
	"bench/lab":           "codec/memcache codec/text codec/thrift segment/segmenttest/failingdisk",
	"bench/peer":          "loadtest loadtest/spawn",
	"bench/peer/peertest": "bench/peer loadtest/spawn",
	"bench/peers":         "bench/peer bench/peer/peertest loadtest loadtest/figures loadtest/spawn",
	"bench/profile":       "loadtest loadtest/figures loadtest/spawn",
	"bench/http":          "loadtest/figures loadtest/spawn",
	"bench/secure":        "loadtest/figures loadtest/spawn",
	"bench/sim":           "codec/memcache codec/text codec/thrift engine netloop segment segment/segmenttest",

	"docs": "",
}

// homes are the folders in which a library is used, and no other.
var homes = map[string]string{
	"github.com/panjf2000/gnet/v2":           "netloop",
	"github.com/valyala/bytebufferpool":      "netloop",
	"github.com/cespare/xxhash/v2":           "segment",
	"github.com/dchest/siphash":              "engine",
	"github.com/zeebo/xxh3":                  "segment",
	"github.com/klauspost/compress":          "segment",
	"github.com/go-zookeeper/zk":             "client",
	"modernc.org/sqlite":                     "client",
	"github.com/spf13/cobra":                 "cmd",
	"charm.land/bubbletea/v2":                "cmd",
	"github.com/charmbracelet/x/ansi":        "cmd",
	"golang.org/x/term":                      "cmd",
	"golang.org/x/tools":                     "docs",
	"golang.org/x/crypto":                    "access",
	"github.com/BurntSushi/toml":             "cmd",
	"github.com/coreos/go-systemd/v22":       "cmd",
	"github.com/google/go-containerregistry": "cmd",
	"github.com/CycloneDX/cyclonedx-go":      "cmd",
	"github.com/prometheus/client_golang":    "netloop",
	"github.com/go-echarts/go-echarts/v2":    "loadtest",
	"gonum.org/v1/plot":                      "loadtest",
}

// TestImports tests that packages import what the picture allows, and that each library has one
// home.
func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	used := make(map[string]bool)    // arrows between packages
	folders := make(map[string]bool) // arrows between folders, of what is no test
	for _, file := range goFiles(t) {
		pkg := path.Dir(file)
		seen[pkg] = true
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("%s: the picture has no package %s: add it to mayImport and to ARCHITECTURE.md", file, pkg)
			continue
		}
		parsed := parse(t, file)
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkHome(t, file, imported)
			ours, found := strings.CutPrefix(imported, module+"/")
			if !found || ours == pkg {
				continue
			}
			if !slices.Contains(strings.Fields(allowed), ours) {
				t.Errorf("%s imports %s: the picture has no such arrow", file, ours)
			}
			used[pkg+" "+ours] = true
			if from, to := folder(pkg), folder(ours); from != to && !strings.HasSuffix(file, "_test.go") {
				folders[from+" "+to] = true
			}
		}
	}
	for pkg, allowed := range mayImport {
		for _, ours := range strings.Fields(allowed) {
			if !used[pkg+" "+ours] {
				t.Errorf("the picture has an arrow from %s to %s, which no file uses", pkg, ours)
			}
		}
	}
	checkFolders(t, folders)
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("the picture has a package %s, and the tree does not", pkg)
		}
	}
}

func folder(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// checkFolders tests that ARCHITECTURE.md has the arrows between folders, each "FROM TO", and no others.
func checkFolders(t *testing.T, arrows map[string]bool) {
	t.Helper()
	text := read(t, "ARCHITECTURE.md")
	_, text, _ = strings.Cut(text, "| folder | imports, of ours |\n|---|---|\n")
	text, _, _ = strings.Cut(text, "\n\n")
	drawn := make(map[string]bool)
	word := regexp.MustCompile("`([a-z]+)`")
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		for _, from := range word.FindAllStringSubmatch(cells[1], -1) {
			for _, to := range word.FindAllStringSubmatch(cells[2], -1) {
				drawn[from[1]+" "+to[1]] = true
			}
		}
	}
	for arrow := range arrows {
		if !drawn[arrow] {
			t.Errorf("ARCHITECTURE.md has no arrow between the folders %s", arrow)
		}
	}
	for arrow := range drawn {
		if !arrows[arrow] {
			t.Errorf("ARCHITECTURE.md has an arrow between the folders %s, which no file uses", arrow)
		}
	}
}

// checkHome tests that a library is used in its home.
func checkHome(t *testing.T, file, imported string) {
	t.Helper()
	folder, _, _ := strings.Cut(file, "/")
	for library, home := range homes {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && folder != home {
			t.Errorf("%s imports %s, whose home is %s", file, imported, home)
		}
	}
}

// goFiles returns the Go files of the tree, slash-separated, relative to its root.
func goFiles(t *testing.T) []string {
	t.Helper()
	files, err := findGoFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 400 {
		t.Fatalf("only %d Go files were found below %s", len(files), root)
	}
	return files
}

// findGoFiles looks for them once.
var findGoFiles = sync.OnceValues(func() (files []string, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files, err
})
