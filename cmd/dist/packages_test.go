package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packed is a file in a package.
type packed struct {
	mode int64
	sum  string // SHA-256
}

// TestPackages unpacks the packages of each architecture that $KESTREL_DIST has, and compares them. The RPM package has
// the files of the Debian one, with the same bytes and modes. `make dist` runs it.
func TestPackages(t *testing.T) {
	dir := os.Getenv("KESTREL_DIST")
	if dir == "" {
		t.Skip("KESTREL_DIST names no release: make dist builds one")
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) == 0 {
		t.Fatalf("no packages in %s: %v", dir, err)
	}
	for _, deb := range debs {
		arch := strings.TrimSuffix(deb[strings.LastIndex(deb, "_")+1:], ".deb")
		rpms, err := filepath.Glob(filepath.Join(dir, "*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]+".rpm"))
		if err != nil || len(rpms) != 1 {
			t.Errorf("beside %s there are %q: %v", deb, rpms, err)
			continue
		}
		d, err := debFiles(read(t, deb))
		if err != nil {
			t.Fatalf("%s: %v", deb, err)
		}
		r, err := rpmFiles(read(t, rpms[0]))
		if err != nil {
			t.Fatalf("%s: %v", rpms[0], err)
		}
		for _, file := range []string{
			"/usr/bin/kestrel", "/usr/lib/systemd/system/kestrel.service", "/etc/kestrel/kestrel.toml", "/usr/share/man/man1/kestrel.1.gz",
		} {
			if d[file].sum == "" {
				t.Errorf("%s has no %s", deb, file)
			}
		}
		for _, file := range slices.Sorted(maps.Keys(d)) {
			if r[file] != d[file] {
				t.Errorf("%s: the Debian package has %+v, and the RPM package %+v", file, d[file], r[file])
			}
		}
		for _, file := range slices.Sorted(maps.Keys(r)) {
			if _, ok := d[file]; !ok {
				t.Errorf("only the RPM package has %s", file)
			}
		}
	}
}

// debFiles returns the files of a Debian package: an ar archive with a tar archive of them.
func debFiles(b []byte) (map[string]packed, error) {
	const head = 60
	for b = bytes.TrimPrefix(b, []byte("!<arch>\n")); len(b) >= head; {
		name, field := string(bytes.TrimSpace(b[:16])), string(bytes.TrimSpace(b[48:58]))
		size, err := strconv.Atoi(field)
		if err != nil || head+size > len(b) {
			return nil, fmt.Errorf("member %q has size %q", name, field)
		}
		if strings.TrimSuffix(name, "/") == "data.tar.gz" {
			return tarFiles(b[head : head+size])
		}
		b = b[min(head+size+size%2, len(b)):]
	}
	return nil, fmt.Errorf("no data.tar.gz")
}

func tarFiles(b []byte) (map[string]packed, error) {
	gz, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	files := make(map[string]packed)
	for archive := tar.NewReader(gz); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil {
			return nil, err
		}
		files["/"+strings.TrimPrefix(strings.TrimPrefix(h.Name, "."), "/")] = packed{h.Mode & 0o777, fmt.Sprintf("%x", sum.Sum(nil))}
	}
}

// rpmFiles returns the files of an RPM package: a lead, two headers, and a cpio archive of the files.
func rpmFiles(b []byte) (map[string]packed, error) {
	const lead, intro, entry = 96, 16, 16
	off := lead
	for range 2 {
		if off = (off + 7) &^ 7; len(b) < off+intro || !bytes.HasPrefix(b[off:], []byte{0x8e, 0xad, 0xe8, 1}) {
			return nil, fmt.Errorf("no header at offset %d", off)
		}
		off += intro + entry*int(binary.BigEndian.Uint32(b[off+8:])) + int(binary.BigEndian.Uint32(b[off+12:]))
	}
	gz, err := gzip.NewReader(bytes.NewReader(b[min(off, len(b)):]))
	if err != nil {
		return nil, err
	}
	archive, err := io.ReadAll(gz)
	if err != nil {
		return nil, err
	}
	return cpioFiles(archive)
}

// cpioFiles reads an archive in cpio's new format: each file has a head of thirteen numbers of eight hexadecimal digits.
func cpioFiles(b []byte) (map[string]packed, error) {
	const magic, digits, head = 6, 8, 6 + 13*8
	const mode, size, nameSize = 1, 6, 11 // places of numbers
	files := make(map[string]packed)
	for len(b) >= head {
		number := func(i int) int {
			n, err := strconv.ParseUint(string(b[magic+i*digits:magic+(i+1)*digits]), 16, 32)
			if err != nil {
				return -1
			}
			return int(n)
		}
		data := (head + number(nameSize) + 3) &^ 3
		end := (data + number(size) + 3) &^ 3
		if number(nameSize) < 1 || number(size) < 0 || end > len(b) {
			return nil, fmt.Errorf("a damaged head, %d bytes before the end", len(b))
		}
		name := string(b[head : head+number(nameSize)-1])
		if name == "TRAILER!!!" {
			return files, nil
		}
		if number(mode)&0o170000 == 0o100000 {
			files["/"+strings.TrimPrefix(strings.TrimPrefix(name, "."), "/")] =
				packed{int64(number(mode) & 0o777), fmt.Sprintf("%x", sha256.Sum256(b[data:data+number(size)]))}
		}
		b = b[end:]
	}
	return nil, fmt.Errorf("no end")
}
