package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// clockEdits give the engine of a worker a clock that can be set: all its wall clock times come from here.
var clockEdits = []struct{ old, new string }{
	{"return Time(t.UnixMilli())", "return Time(t.UnixMilli() + clockStep)"},
	{"func Now() Time { return Time(time.Now().UnixMilli()) }",
		"func Now() Time { return At(time.Now()) }\n\nvar clockStep int64"},
}

// clockOverlay writes the overlay of o, with clockEdits, to a file in dir and returns its name.
func (o *options) clockOverlay(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}",
		"github.com/kestrelmq/kestrel/engine/internal/item").Output()
	if err != nil {
		return "", fmt.Errorf("find the engine's clock: %w", err)
	}
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
	path := filepath.Join(strings.TrimSpace(string(out)), "item.go")
	from := path
	if broken, ok := all.Replace[path]; ok {
		from = broken
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	source := string(b)
	for _, e := range clockEdits {
		if strings.Count(source, e.old) != 1 {
			return "", fmt.Errorf("%s does not have once what tells the time: %q", path, e.old)
		}
		source = strings.Replace(source, e.old, e.new, 1)
	}
	all.Replace[path] = filepath.Join(dir, "item.go")
	if b, err = json.Marshal(all); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, errors.Join(os.WriteFile(all.Replace[path], []byte(source), 0o600), os.WriteFile(name, b, 0o600))
}
