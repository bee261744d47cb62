package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"maps"
	"testing"
)

// TestBuildCommitWithoutHistory asks for a commit where there is none: the experiment must be able to say so.
func TestBuildCommitWithoutHistory(t *testing.T) {
	_, err := buildCommit(t.Context(), t.TempDir(), beforeMessages, t.TempDir())
	if !errors.Is(err, errNoHistory) {
		t.Errorf("building a commit of no repository = %v, want %v", err, errNoHistory)
	}
}

func TestUnpack(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": beforeMessages}},
		{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "a/b/c.go", Mode: 0o644, Size: 3},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unpack(archive.Bytes(), dir); err != nil {
		t.Fatal(err)
	}
	got, err := readFiles(dir)
	if want := map[string][]byte{"a/b/c.go": []byte("abc")}; err != nil || !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("unpacked %q, %v, want %q", got, err, want)
	}
	if err := unpack(archive.Bytes()[:1100], t.TempDir()); err == nil {
		t.Error("an archive that was cut short is unpacked")
	}
}
