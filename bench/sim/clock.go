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

// clockEdits give the engine of a worker a clock that can be set: all its wall clock times come from here. What
// is due goes by a clock that nobody sets, from the start of the process on. The other edits have background work go
// through its small queues in pieces as well. So processes end, and calls fail, between two of them.
var clockEdits = []struct{ file, old, new string }{
	{"internal/item/item.go", "return Time(t.UnixMilli())", "return Time(t.UnixMilli() + clockStep)"},
	{"internal/item/item.go", "func Now() Time { return Time(time.Now().UnixMilli()) }",
		"func Now() Time { return At(time.Now()) }\n\nvar clockStep int64"},
	{"options.go", "setDefault(&o.enterBatch, checkpointBatch)", "setDefault(&o.enterBatch, 100)"},
	{"trim.go", "checkpointBatch = 32 << 10", "checkpointBatch = 64"},
	{"checkpoint.go", "const checkpointRecords = 256", "const checkpointRecords = 2"},
	{"gone.go", "const readBatch = 1024", "const readBatch = 3"},
	{"fill.go", "const takePiece = 1024", "const takePiece = 2"},
	{"hide.go", "\thidePiece = 128", "\thidePiece = 2"},
	{"hide.go", "unhidePiece = 128", "unhidePiece = 2"},
	{"internal/hidden/batch.go", "FrameSize = 64 << 10", "FrameSize = 256"},
}

// clockOverlay writes the overlay of o, with clockEdits, to a file in dir and returns its name.
func (o *options) clockOverlay(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/kestrelmq/kestrel/engine").Output()
	if err != nil {
		return "", fmt.Errorf("find the engine's clock: %w", err)
	}
	engine := strings.TrimSpace(string(out))
	var all struct{ Replace map[string]string }
	if o.overlay != "" {
		b, err := os.ReadFile(o.overlay)
		if err == nil {
			err = json.Unmarshal(b, &all)
		}
		if err != nil {
			return "", fmt.Errorf("read overlay: %w", err)
		}
	}
	if all.Replace == nil {
		all.Replace = make(map[string]string)
	}
	for i, e := range clockEdits {
		path := filepath.Join(engine, e.file)
		from := path
		if edited, ok := all.Replace[path]; ok {
			from = edited
		}
		source, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if strings.Count(string(source), e.old) != 1 {
			return "", fmt.Errorf("%s does not have once what tells the time: %q", path, e.old)
		}
		all.Replace[path] = filepath.Join(dir, fmt.Sprintf("clock-%d.go", i))
		err = os.WriteFile(all.Replace[path], []byte(strings.Replace(string(source), e.old, e.new, 1)), 0o600)
		if err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
