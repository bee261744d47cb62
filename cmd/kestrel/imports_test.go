package main

import (
	goparser "go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/kestrelmq/kestrel/"

// mayImport says which of our packages each folder may import, tests included; segment/segmenttest,
// which is for tests only, goes with segment.
var mayImport = map[string][]string{
	"codec":    {"codec"},
	"segment":  {"segment"},
	"engine":   {"segment", "engine"},
	"netloop":  {"engine", "codec", "segment", "netloop"},
	"loadtest": {"codec", "loadtest"},
	"bench":    {"codec", "segment", "engine", "netloop", "loadtest", "bench"},
	"cmd":      {"codec", "segment", "engine", "netloop", "loadtest", "cmd"},
}

// homes are the folders in which a library is used, and no other.
var homes = map[string]string{
	"github.com/valyala/bytebufferpool":   "netloop",
	"github.com/cespare/xxhash/v2":        "segment",
	"github.com/zeebo/xxh3":               "segment",
	"github.com/klauspost/compress":       "segment",
	"github.com/spf13/cobra":              "cmd",
	"github.com/BurntSushi/toml":          "cmd",
	"github.com/prometheus/client_golang": "netloop",
	"github.com/go-echarts/go-echarts/v2": "loadtest",
	"gonum.org/v1/plot":                   "loadtest",
}

// TestImportDirection checks that imports go one way, and that each library has one home.
func TestImportDirection(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		files++
		name, _ := filepath.Rel("../..", path)
		folder, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		parsed, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, name, folder, imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

func checkImport(t *testing.T, file, folder, imported string) {
	t.Helper()
	for library, home := range homes {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && folder != home {
			t.Errorf("%s imports %s, whose home is %s", file, imported, home)
		}
	}
	ours, found := strings.CutPrefix(imported, module)
	if !found {
		return
	}
	target, _, _ := strings.Cut(ours, "/")
	for _, allowed := range mayImport[folder] {
		if target == allowed {
			return
		}
	}
	t.Errorf("%s imports %s: %s may import only %v", file, imported, folder, mayImport[folder])
}
