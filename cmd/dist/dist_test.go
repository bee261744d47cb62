package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// built is the time of the commit in these tests.
var built = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// newTarget is a target whose program and documents are there. Their times differ from one call to the next.
func newTarget(t *testing.T, touched time.Time) *target {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	dir := t.TempDir()
	r := &release{out: dir, host: filepath.Join(dir, "stage", "host"), version: "9.8.7", built: built}
	tg := &target{release: r, arch: "arm64", stage: filepath.Join(dir, "stage", "arm64")}
	for file, text := range map[string]string{
		tg.program(): "the program", filepath.Join(r.host, "man", "kestrel.1"): "the page",
		filepath.Join(r.host, "completion.bash"): "bash", filepath.Join(r.host, "completion.zsh"): "zsh",
		filepath.Join(r.host, "completion.fish"): "fish",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, touched, touched); err != nil {
			t.Fatal(err)
		}
	}
	if err := compress(filepath.Join(r.host, "man", "kestrel.1")); err != nil {
		t.Fatal(err)
	}
	return tg
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// membersOf returns the headers of a tar archive, and the bytes of its files by their names.
func membersOf(t *testing.T, archive io.Reader) (headers []*tar.Header, files map[string]string) {
	t.Helper()
	files = make(map[string]string)
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return headers, files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		headers, files[h.Name] = append(headers, h), string(b)
	}
}

// TestSameBytes builds archive and image twice, of files with other times: the bytes are the same.
func TestSameBytes(t *testing.T) {
	var was map[string][]byte
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tg := newTarget(t, built.Add(time.Duration(i)*time.Hour))
			if err := tg.archive(); err != nil {
				t.Fatal(err)
			}
			if err := tg.image(); err != nil {
				t.Fatal(err)
			}
			now := make(map[string][]byte)
			for _, file := range []string{"kestrel-9.8.7-linux-arm64.tar.gz", "kestrel-9.8.7-image-arm64.tar"} {
				now[file] = read(t, filepath.Join(tg.out, file))
				if was != nil && !bytes.Equal(was[file], now[file]) {
					t.Errorf("%s is not the same twice", file)
				}
			}
			was = now
		})
	}
}

// TestArchive looks into an archive: the program, what belongs to it, and the documents, as of the commit.
func TestArchive(t *testing.T) {
	tg := newTarget(t, time.Now())
	if err := tg.archive(); err != nil {
		t.Fatal(err)
	}
	gz, err := gzip.NewReader(bytes.NewReader(read(t, filepath.Join(tg.out, "kestrel-9.8.7-linux-arm64.tar.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	headers, files := membersOf(t, gz)
	const base = "kestrel-9.8.7-linux-arm64/"
	for file, text := range map[string]string{
		"kestrel": "the program", "completion.zsh": "zsh", "LICENSE": string(read(t, "LICENSE")),
		"CHANGELOG.md":    string(read(t, "docs/CHANGELOG.md")),
		"kestrel.service": string(read(t, "docs/operations/kestrel.service")),
	} {
		if got, ok := files[base+file]; !ok || got != text {
			t.Errorf("the archive has %s: %t, with %d bytes; want %d", file, ok, len(got), len(text))
		}
	}
	if _, ok := files[base+"man/kestrel.1.gz"]; !ok || len(files) != len(documents)+5 {
		t.Errorf("the archive has %d files, among them the man page: %t", len(files), ok)
	}
	for _, h := range headers {
		mode := int64(0o644)
		if h.Name == base+"kestrel" {
			mode = 0o755
		}
		if !h.ModTime.Equal(built) || h.Mode != mode || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s is of %v, mode %o, user %d:%d", h.Name, h.ModTime, h.Mode, h.Uid, h.Gid)
		}
	}
}

// TestImage looks into an image: its user may write to the volume, and it starts the server there.
func TestImage(t *testing.T) {
	tg := newTarget(t, time.Now())
	if err := tg.image(); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("kestrel:9.8.7")
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(filepath.Join(tg.out, "kestrel-9.8.7-image-arm64.tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if file.OS != "linux" || file.Architecture != "arm64" || !file.Created.Equal(built) {
		t.Errorf("the image is for %s/%s, of %v", file.OS, file.Architecture, file.Created)
	}
	line := strings.Join(append(slices.Clone(c.Entrypoint), c.Cmd...), " ")
	if line != "/kestrel serve --listen-address 0.0.0.0 --admin-port 2223 --data-dir /data" || c.User != "65532:65532" {
		t.Errorf("the image runs %q as %s", line, c.User)
	}
	_, ok := c.Volumes["/data"]
	if !ok || len(c.ExposedPorts) != 4 || c.Labels["org.opencontainers.image.version"] != "9.8.7" {
		t.Errorf("the image has volumes %v, ports %v, labels %v", c.Volumes, c.ExposedPorts, c.Labels)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the image has %d layers: %v", len(layers), err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	headers, files := membersOf(t, layer)
	if files["kestrel"] != "the program" || len(headers) != 2 {
		t.Errorf("the image has %d members, and %q as its program", len(headers), files["kestrel"])
	}
	for _, h := range headers {
		if h.Name != "data/" {
			continue
		}
		if h.Typeflag != tar.TypeDir || h.Uid != imageUser || h.Gid != imageUser || h.Mode&0o700 != 0o700 {
			t.Errorf("user %d may not write to data/: it is %c, mode %o, of %d:%d", imageUser, h.Typeflag, h.Mode, h.Uid, h.Gid)
		}
	}
	if _, ok := files["data/"]; !ok {
		t.Error("the image has no directory for its volume, so the volume would be root's")
	}
}

// TestBill makes the bill of materials of this test's own program: it lists each of its modules, and the toolchain.
func TestBill(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{out: t.TempDir(), version: "9.8.7", built: built}
	if err := r.bill(program); err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Metadata struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(read(t, filepath.Join(r.out, "kestrel-9.8.7.cdx.json")), &bill); err != nil {
		t.Fatal(err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this test's program does not say of which modules it is")
	}
	listed := make(map[string]bool)
	for _, c := range bill.Components {
		listed[c.Purl] = true
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if url := "pkg:golang/" + m.Path + "@" + m.Version; !listed[url] {
			t.Errorf("the bill does not list %s", url)
		}
	}
	if !listed["pkg:golang/std@"+info.GoVersion] || len(listed) != len(info.Deps)+1 {
		t.Errorf("the bill lists %d components, and the program is of %d modules and the toolchain", len(listed),
			len(info.Deps))
	}
	if bill.Metadata.Timestamp != "2030-01-02T03:04:05Z" || bill.Metadata.Component.Version != "v9.8.7" {
		t.Errorf("the bill is about %v", bill.Metadata)
	}
}

// TestSums compares SHA256SUMS with the files.
func TestSums(t *testing.T) {
	r := &release{out: t.TempDir()}
	for _, file := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(r.out, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sum(); err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, file := range []string{"a", "b"} {
		sum := sha256.Sum256([]byte(file))
		want += hex.EncodeToString(sum[:]) + "  " + file + "\n"
	}
	if got := string(read(t, filepath.Join(r.out, "SHA256SUMS"))); got != want {
		t.Errorf("the sums are\n%s, want\n%s", got, want)
	}
}
