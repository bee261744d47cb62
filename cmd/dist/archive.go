package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// documents go into the archives beside the server.
var documents = []string{
	"LICENSE", "README.md", "docs/CHANGELOG.md", "docs/CONFIGURATION.md", "docs/OPERATIONS.md", "docs/SECURITY.md",
	"docs/kestrel.example.toml", "docs/operations/kestrel.service", "docs/operations/kestrel.socket",
	"docs/operations/kestrel.sysusers", "docs/operations/kestrel.rules.yml", "docs/operations/kestrel.dashboard.json",
}

// member is a file of an archive.
type member struct {
	name string // in the archive
	file string // on this machine; "" for a directory
	mode int64
	user int // that owns it, and its group
}

// archive writes kestrel-VERSION-linux-ARCH.tar.gz.
func (t *target) archive() (err error) {
	base := fmt.Sprintf("kestrel-%s-linux-%s", t.version, t.arch)
	members := []member{{name: path.Join(base, "kestrel"), file: t.program(), mode: 0o755}}
	man, err := filepath.Glob(filepath.Join(t.host, "man", "*.gz"))
	if err != nil {
		return err
	}
	for _, page := range man {
		members = append(members, member{name: path.Join(base, "man", filepath.Base(page)), file: page, mode: 0o644})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		name := "completion." + shell
		members = append(members, member{name: path.Join(base, name), file: filepath.Join(t.host, name), mode: 0o644})
	}
	for _, doc := range documents {
		members = append(members, member{name: path.Join(base, path.Base(doc)), file: doc, mode: 0o644})
	}
	var packed bytes.Buffer
	gz, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := t.tar(gz, members); err != nil {
		return err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.out, base+".tar.gz"), packed.Bytes(), 0o666)
}

// tar writes members to w, as of the commit.
func (r *release) tar(w io.Writer, members []member) error {
	tw := tar.NewWriter(w)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: m.mode, Uid: m.user, Gid: m.user, ModTime: r.built, Format: tar.FormatPAX}
		var b []byte
		if m.file == "" {
			h.Typeflag = tar.TypeDir
		} else {
			var err error
			if b, err = os.ReadFile(m.file); err != nil {
				return err
			}
			h.Size = int64(len(b))
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(b); err != nil {
			return err
		}
	}
	return tw.Close()
}

// compress replaces a file by NAME.gz, without a time in it.
func compress(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	gz, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := gz.Write(b); err != nil {
		return err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(name+".gz", packed.Bytes(), 0o666); err != nil {
		return err
	}
	return os.Remove(name)
}
