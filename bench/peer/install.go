package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// debian are the servers that Debian has: the programs, and the packages they are in.
func debian() map[string]string {
	return map[string]string{
		"redis-server": "redis-server", "beanstalkd": "beanstalkd", "memcached": "memcached",
	}
}

// module is a server that is built from the source of a Go module.
type module struct{ program, path, version, pkg string }

func modules() []module {
	return []module{
		{"nats-server", "github.com/nats-io/nats-server/v2", "v2.12.1", "."},
		{"nsqd", "github.com/nsqio/nsq", "v1.3.0", "./apps/nsqd"},
	}
}

// Install installs those of the named servers that are not there. Debian's come with apt-get, which needs root. The
// others, of fixed versions, go into a directory. It says what it does.
func Install(ctx context.Context, dir string, names []string, stderr io.Writer) error {
	wanted := make(map[string]bool)
	for _, name := range names {
		if s, known := Find(name); known {
			wanted[s.Program] = true
		}
	}
	var missing []string
	for program, pkg := range debian() {
		if !wanted[program] {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	var errs []error
	if len(missing) > 0 {
		install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
		for _, args := range [][]string{{"update", "-q"}, install} {
			fmt.Fprintf(stderr, "apt-get %v\n", args)
			if err := runCommand(ctx, "", stderr, "apt-get", args...); err != nil {
				errs = append(errs, fmt.Errorf("install %v, as root: %w", missing, err))
				break
			}
		}
	}
	for _, m := range modules() {
		if !wanted[m.program] {
			continue
		}
		target := filepath.Join(dir, m.program)
		if _, err := os.Stat(target); err == nil {
			continue
		}
		fmt.Fprintf(stderr, "building %s %s\n", m.program, m.version)
		if err := m.build(ctx, target, stderr); err != nil {
			errs = append(errs, fmt.Errorf("build %s: %w", m.program, err))
		}
	}
	return errors.Join(errs...)
}

// build builds the program from a copy of its module as the Go module proxy has it, whose checksum
// the go command has verified. It does what `go install path@version` would. The latter refuses a
// module that replaces a dependency; build does not.
func (m module) build(ctx context.Context, target string, stderr io.Writer) error {
	target, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.path+"@"+m.version)
	cmd.Stdout, cmd.Stderr = &out, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go mod download %s@%s: %w", m.path, m.version, err)
	}
	var got struct{ Dir string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return err
	}
	source, err := os.MkdirTemp("", "peers-"+m.program+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := os.CopyFS(source, os.DirFS(got.Dir)); err != nil {
		return err
	}
	return runCommand(ctx, source, stderr, "go", "build", "-trimpath", "-o", target, m.pkg)
}

// runCommand runs a command in a directory; what it prints goes to stderr.
func runCommand(ctx context.Context, dir string, stderr io.Writer, name string,
	args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stderr, stderr
	return cmd.Run()
}
