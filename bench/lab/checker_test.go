package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// checker checks the types of packages with edits. That takes a fiftieth of the time of building them.
type checker struct {
	root     string
	files    *token.FileSet
	importer types.Importer
	packages []parsedPackage // as they are
}

// parsedPackage is a package; path i is that of syntax i.
type parsedPackage struct {
	paths  []string
	syntax []*ast.File
}

// newChecker reads the packages that all have edits in, once. What they import comes from what go has compiled.
func newChecker(t *testing.T, root string, all []edit) *checker {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly"}
	for _, e := range all {
		args = append(args, "./"+filepath.Dir(e.file))
	}
	slices.Sort(args[4:])
	cmd := exec.CommandContext(t.Context(), "go", slices.Compact(args)...)
	cmd.Dir = root
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	c := &checker{root: root, files: token.NewFileSet()}
	compiled := make(map[string]string) // by import path
	for list := json.NewDecoder(out); err == nil; {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err = list.Decode(&p); err != nil {
			break
		}
		compiled[p.ImportPath] = p.Export
		if p.DepOnly {
			continue
		}
		var parsed parsedPackage
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			syntax, bad := parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution)
			err = errors.Join(err, bad)
			parsed.paths, parsed.syntax = append(parsed.paths, path), append(parsed.syntax, syntax)
		}
		c.packages = append(c.packages, parsed)
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	return c
}

// check returns why the edits cannot be made, or an error of the types of a package with them.
func (c *checker) check(edits []edit) error {
	files, err := edited(c.root, edits)
	if err != nil {
		return err
	}
	for _, p := range c.packages {
		syntax, is := slices.Clone(p.syntax), false
		for i, path := range p.paths {
			source, found := files[path]
			if !found {
				continue
			}
			delete(files, path)
			is = true
			if syntax[i], err = parser.ParseFile(c.files, path, source, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		if !is {
			continue
		}
		how := types.Config{Importer: c.importer}
		if _, err := how.Check("", c.files, syntax, nil); err != nil {
			return err
		}
	}
	for path := range files {
		return fmt.Errorf("%s is in no package that was read", path)
	}
	return nil
}
