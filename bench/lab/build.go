package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repository returns the directory of go.mod.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// edit replaces a piece of a source file, which must be there exactly once. The file is one of the
// repository, or of any place if its path is absolute.
type edit struct{ file, old, new string }

// edited returns the contents of source files with edits, by path.
func edited(root string, edits []edit) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range edits {
		path := e.file
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, e.file)
		}
		source, ok := files[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			source = string(b)
		}
		if n := strings.Count(source, e.old); n != 1 {
			return nil, fmt.Errorf("%s has %d times, not once, what is to be broken: %q", e.file, n, e.old)
		}
		files[path] = strings.Replace(source, e.old, e.new, 1)
	}
	return files, nil
}

// overlay writes edited copies of source files into dir, and the file that has the go command use
// them in place of the real ones.
func overlay(root, dir string, edits []edit) (string, error) {
	files, err := edited(root, edits)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for path, source := range files {
		copied := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(copied, []byte(source), 0o600); err != nil {
			return "", err
		}
		replace[path] = copied
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// build compiles the server into dir, with edits, and returns the path of the program.
func build(ctx context.Context, root, dir string, edits []edit) (string, error) {
	if len(edits) == 0 {
		return compile(ctx, root, dir)
	}
	file, err := overlay(root, dir, edits)
	if err != nil {
		return "", err
	}
	return compile(ctx, root, dir, "-overlay", file)
}

// compile compiles the server into dir, with flags of go build, and returns the path of the program.
func compile(ctx context.Context, root, dir string, flags ...string) (string, error) {
	program := filepath.Join(dir, "kestrel")
	args := append([]string{"build", "-o", program}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/kestrel")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // no loader whose calls could be made to fail
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}
