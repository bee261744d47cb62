package spawn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTempDirLeftovers makes a directory beside others. They are of a process that lives, of one that was killed, and of
// one whose server lives; some are none. It removes that of the dead one alone.
func TestTempDirLeftovers(t *testing.T) {
	in := t.TempDir()
	make := func() *TempDir {
		d, err := MakeTemp(in, "kestrel-load-serve")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Lock.Close() })
		return d
	}
	alive := make()
	for name, file := range map[string]string{
		"kestrel-load-serve-1": "lock", "kestrel-load-serve-2": "no-lock-yet", "kestrel-load-serve-mine": "lock",
		"kestrel-load-other-1": "lock", "other": "lock",
	} {
		dir := filepath.Join(in, name)
		if err := errors.Join(os.MkdirAll(dir+"/data", 0o700), os.WriteFile(filepath.Join(dir, file), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(in, "other"), filepath.Join(in, "kestrel-load-serve-3")); err != nil {
		t.Fatal(err)
	}
	second := make()
	for _, dir := range []string{alive.Path, second.Path, in + "/kestrel-load-serve-2", in + "/kestrel-load-serve-3/lock",
		in + "/kestrel-load-serve-mine/lock", in + "/kestrel-load-other-1/lock", in + "/other/lock"} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
	if _, err := os.Stat(in + "/kestrel-load-serve-1"); !os.IsNotExist(err) {
		t.Errorf("the directory of a process that was killed: %v, want none", err)
	}
	if err := errors.Join(alive.Remove(), second.Remove()); err != nil {
		t.Error(err)
	}
	for _, d := range []*TempDir{alive, second} {
		if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
			t.Errorf("the directory that was removed: %v, want none", err)
		}
	}
}

// TestServerHoldsItsDirectory tests that the directory of a server stays as long as it lives, whoever else has gone.
func TestServerHoldsItsDirectory(t *testing.T) {
	o := script(t, "exec sleep 1000")
	o.Ready = func() error { return nil }
	p, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	p.temp.Lock.Close() // as the end of this process would
	removeLeftovers(o.Dir, "kestrel-load-test-")
	if _, err := os.Stat(p.Dir); err != nil {
		t.Errorf("the directory of a server that lives: %v", err)
	}
	p.cmd.Process.Kill()
	<-p.exited
	removeLeftovers(o.Dir, "kestrel-load-test-")
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("a server that was killed left %v, %v", left, err)
	}
	if err := p.Kill(); err != nil && !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
