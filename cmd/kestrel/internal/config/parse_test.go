package config

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

// FuzzConfig loads arbitrary bytes: they are a configuration that an engine takes, or problems,
// each with a line that exists and in one line itself.
func FuzzConfig(f *testing.F) {
	for _, tt := range badConfigs {
		f.Add(tt.src)
	}
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Fuzz(func(t *testing.T, src string) {
		c, err := Parse("kestrel.toml", src, nil)
		if err == nil {
			if err := c.Engine.Validate(); err != nil {
				t.Errorf("parseConfig(%q) makes bad options: %v", src, err)
			}
			for _, w := range c.Warnings {
				checkLine(t, src, w)
			}
			return
		}
		var wrong *Error
		if !errors.As(err, &wrong) || len(wrong.Problems) == 0 {
			t.Fatalf("parseConfig(%q) = %v, want a configError", src, err)
		}
		for _, p := range wrong.Problems {
			checkLine(t, src, p.String())
			if last := strings.Count(src, "\n") + 1; p.Line < 0 || p.Line > last {
				t.Errorf("parseConfig(%q): %v: the last line is %d", src, p, last)
			}
			if p.Line == 0 && len(src) <= MaxSize && !strings.HasPrefix(p.Text, "not TOML: ") {
				t.Errorf("parseConfig(%q): %v: want a line", src, p)
			}
		}
	})
}

func checkLine(t *testing.T, src, line string) {
	t.Helper()
	if strings.ContainsFunc(line, unicode.IsControl) || !strings.HasPrefix(line, "kestrel.toml:") {
		t.Errorf("parseConfig(%q) says %q", src, line)
	}
}

// TestConfigBounded loads the worst that a file may hold: what is kept of it stays within bounds.
func TestConfigBounded(t *testing.T) {
	header := "[" + strings.Repeat("k", maxKeySize-8) + "]\n"
	var keys strings.Builder
	for i := 0; keys.Len() < MaxSize-len(header)-16; i++ {
		fmt.Fprintf(&keys, "%x=1\n", i)
	}
	queues := "[queues]\n" + strings.ReplaceAll(keys.String(), "=1", "={}")[:MaxSize*3/4]
	queues = queues[:strings.LastIndexByte(queues, '\n')]
	for _, tt := range []struct{ name, src, want string }{
		{"deep keys", header + keys.String(), "unknown key"},
		{"unknown keys", keys.String(), "unknown key"},
		{"unknown keys of a queue", "[queues.a]\n" + keys.String(), "unknown key"},
		{"many queues", queues, ""},
		{"one value", "loops = \"" + strings.Repeat("x", MaxSize-12) + "\"", "want a whole number"},
		{"too much", strings.Repeat("#", MaxSize+1), "larger than 1MiB"},
	} {
		if testing.Short() && strings.HasPrefix(tt.name, "unknown keys") {
			continue // deep keys, which take more, stand for them
		}
		if testing.Short() && os.Getenv("KESTREL_CI") == "" && tt.name == "deep keys" {
			continue // they take as long as all other tests of this package; CI runs them
		}
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("kestrel.toml", tt.src, nil)
			runtime.ReadMemStats(&after)
			var text string
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, tt.want) || (err == nil) != (tt.want == "") || len(text) > 100<<10 {
				t.Errorf("parseConfig = %.1000s (%d bytes), want %q", text, len(text), tt.want)
			}
			const most = 512 << 20 // bytes allocated, most of them by the TOML parser and soon given up
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("allocated %s, want at most %s", FormatSize(int64(took)), FormatSize(most))
			}
			t.Logf("allocated %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
		})
	}
}
