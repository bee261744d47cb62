// Command dist builds what a release consists of: archives, Debian and RPM packages and a container
// image for each architecture, an SBOM, and their checksums.
//
// The same tree gives the same bytes. File times are those of the commit, paths of the machine are left out, and
// nothing is compressed with a time in it.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// nfpm packs the packages. Its later releases need modules that the public proxy does not serve.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.41.0"

func main() {
	log.SetFlags(0)
	log.SetPrefix("dist: ")
	out := flag.String("out", "bin/dist", "directory for what is built; what it holds is removed first")
	archs := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, *out, strings.Split(*archs, ",")); err != nil {
		log.Fatal(err)
	}
}

// release is what is being built.
type release struct {
	out     string
	host    string    // directory of what is the same for every architecture, and a program for this machine
	version string    // 3.0.0
	built   time.Time // of the commit
}

// target is one architecture of a release.
type target struct {
	*release
	arch  string // as Go names it
	stage string // directory of what goes into archives and packages
}

// program is the built server.
func (t *target) program() string { return filepath.Join(t.stage, "kestrel") }

// build builds a release into the directory out.
func build(ctx context.Context, out string, archs []string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	r := &release{out: out}
	var err error
	if r.built, err = commitTime(ctx); err != nil {
		return err
	}
	r.host = filepath.Join(out, "stage", "host")
	if err := compile(ctx, r.hostProgram(), runtime.GOARCH); err != nil {
		return err
	}
	if r.version, err = r.ask(ctx); err != nil {
		return err
	}
	if err := r.document(ctx); err != nil {
		return err
	}
	for _, arch := range archs {
		t := &target{release: r, arch: arch, stage: filepath.Join(out, "stage", arch)}
		if err := t.build(ctx); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := r.bill(filepath.Join(out, "stage", archs[0], "kestrel")); err != nil {
		return fmt.Errorf("SBOM: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(out, "stage")); err != nil {
		return err
	}
	return r.sum()
}

// commitTime is when the tree was committed.
func commitTime(ctx context.Context) (time.Time, error) {
	b, err := output(exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct"))
	if err != nil {
		return time.Time{}, err
	}
	sec, err := strconv.ParseInt(strings.TrimSpace(b), 10, 64)
	return time.Unix(sec, 0).UTC(), err
}

// hostProgram is the server built for this machine.
func (r *release) hostProgram() string { return filepath.Join(r.host, "kestrel") }

// ask asks the server for its version.
func (r *release) ask(ctx context.Context) (string, error) {
	b, err := output(exec.CommandContext(ctx, r.hostProgram(), "version"))
	if err != nil {
		return "", err
	}
	words := strings.Fields(b)
	if len(words) < 2 {
		return "", fmt.Errorf("%s version says %q", r.hostProgram(), b)
	}
	return words[1], nil
}

// document has the server write its man pages and completions.
func (r *release) document(ctx context.Context) error {
	man := filepath.Join(r.host, "man")
	if err := os.MkdirAll(man, 0o777); err != nil {
		return err
	}
	if _, err := output(exec.CommandContext(ctx, r.hostProgram(), "man", man)); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil || len(pages) == 0 {
		return fmt.Errorf("no man pages in %s: %w", man, err)
	}
	for _, page := range pages {
		if err := compress(page); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := output(exec.CommandContext(ctx, r.hostProgram(), "completion", shell))
		if err == nil {
			err = os.WriteFile(filepath.Join(r.host, "completion."+shell), []byte(text), 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compile builds a static binary for Linux.
func compile(ctx context.Context, program, arch string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -buildid=",
		"-o", program, "./cmd/kestrel")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	_, err := output(cmd)
	return err
}

// build makes everything for one architecture.
func (t *target) build(ctx context.Context) error {
	if err := compile(ctx, t.program(), t.arch); err != nil {
		return err
	}
	if err := t.archive(); err != nil {
		return err
	}
	if err := t.image(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	for _, packager := range []string{"deb", "rpm"} {
		if err := t.pack(ctx, packager); err != nil {
			return err
		}
	}
	return nil
}

// pack makes a package of what docs/operations/nfpm.yaml lists.
func (t *target) pack(ctx context.Context, packager string) error {
	cmd := exec.CommandContext(ctx, "go", "run", nfpm, "package", "--config", "docs/operations/nfpm.yaml",
		"--packager", packager, "--target", t.out)
	cmd.Env = append(os.Environ(), "ARCH="+t.arch, "VERSION="+t.version, "STAGE="+t.stage, "HOST="+t.host,
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(t.built.Unix(), 10))
	_, err := output(cmd)
	return err
}

// output runs a command and returns what it printed. An error has what it wrote to standard error.
func output(cmd *exec.Cmd) (string, error) {
	b, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, exit.Stderr)
	}
	return string(b), err
}

// sum writes the SHA-256 of every file of the release to SHA256SUMS, as sha256sum -c reads it.
func (r *release) sum() error {
	names, err := filepath.Glob(filepath.Join(r.out, "*"))
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range names {
		sum, err := hashOf(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, filepath.Base(name))
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o666)
}

// hashOf returns the SHA-256 of a file.
func hashOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
