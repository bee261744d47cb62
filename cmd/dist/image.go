package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageUser is the user of the server in its container, and its group: nobody else has it by custom.
const imageUser = 65532

// image writes kestrel-VERSION-image-ARCH.tar: a container image from scratch, with the server and
// nothing else, for `docker load` and `podman load`.
//
// The server listens on all addresses of its container, as user 65532, and keeps its queues in
// /data, which is to be a volume. The image has that directory, because a volume takes its owner.
func (t *target) image() error {
	var files bytes.Buffer
	if err := t.tar(&files, []member{
		{name: "data/", mode: 0o750, user: imageUser}, {name: "kestrel", file: t.program(), mode: 0o755},
	}); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: t.built}
	config.OS, config.Architecture = "linux", t.arch
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", imageUser, imageUser),
		Entrypoint: []string{"/kestrel"},
		Cmd:        []string{"serve", "--listen-address", "0.0.0.0", "--admin-port", "2223", "--data-dir", "/data"},
		ExposedPorts: map[string]struct{}{
			"22133/tcp": {}, "2222/tcp": {}, "2223/tcp": {}, "2229/tcp": {},
		},
		Volumes:    map[string]struct{}{"/data": {}},
		WorkingDir: "/data",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "kestrel",
			"org.opencontainers.image.version":  t.version,
			"org.opencontainers.image.source":   "https://github.com/kestrelmq/kestrel",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	tag, err := name.NewTag("kestrel:" + t.version)
	if err != nil {
		return err
	}
	file := fmt.Sprintf("kestrel-%s-image-%s.tar", t.version, t.arch)
	return tarball.WriteToFile(filepath.Join(t.out, file), tag, img)
}
