// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ocilayout_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/leatdev/leat/test/release/archive"
	"github.com/leatdev/leat/test/release/ocilayout"
)

// image has two variants with the same files except the program.
func image() ocilayout.Image {
	i := ocilayout.Image{Name: "registry.example.com/team/x:1.2.3", Tag: "1.2.3", Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	i.Config.User, i.Config.WorkingDir, i.Config.Entrypoint = "65532:65532", "/", []string{"/bin/x"}
	i.Config.Labels = map[string]string{"org.opencontainers.image.title": "X"}
	i.Config.Healthcheck = &ocilayout.Healthcheck{Test: []string{"CMD", "/bin/x", "health"}, Interval: 5 * time.Second, Retries: 6}
	for _, arch := range []string{"amd64", "arm64"} {
		i.Variants = append(i.Variants, ocilayout.Variant{OS: "linux", Architecture: arch, Files: []archive.Entry{
			{Name: "bin", Mode: fs.ModeDir | 0o755},
			{Name: "bin/x", Mode: 0o755, Content: []byte("a program for " + arch)},
			{Name: "data", Mode: fs.ModeDir | 0o700, UID: 65532, GID: 65532},
		}})
	}
	return i
}

// unpacked writes an image, unpacks its layout, and returns it as another library reads it. The tar
// has to be the same twice.
func unpacked(t *testing.T, i ocilayout.Image) v1.ImageIndex {
	t.Helper()
	var first, second bytes.Buffer
	id, err := ocilayout.Write(&first, t.TempDir(), i)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ocilayout.Write(&second, t.TempDir(), i); err != nil || again != id || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("got %s and %s, %v, want the same image twice", id, again, err)
	}
	folder := t.TempDir()
	for reader := tar.NewReader(&first); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(folder, filepath.FromSlash(header.Name))
		content, err := io.ReadAll(reader)
		if err == nil && header.FileInfo().IsDir() {
			err = os.MkdirAll(target, 0o755)
		} else if err == nil {
			err = os.WriteFile(target, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Errorf("the layout is not valid: %v", err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("got %+v, %v, want one image", list, err)
	}
	entry := list.Manifests[0]
	names := map[string]string{"org.opencontainers.image.ref.name": i.Tag, "io.containerd.image.name": i.Name}
	if diff := cmp.Diff(names, entry.Annotations); diff != "" || entry.Digest.String() != id.String() {
		t.Errorf("got the image %s, want %s; annotations (-want +got):\n%s", entry.Digest, id, diff)
	}
	index, err := top.ImageIndex(entry.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestLayout(t *testing.T) {
	t.Parallel()
	index := unpacked(t, image())
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 || manifest.Annotations["org.opencontainers.image.title"] != "X" {
		t.Fatalf("got %+v, %v, want two variants, and the labels as annotations", manifest, err)
	}
	for at, arch := range []string{"amd64", "arm64"} {
		entry := manifest.Manifests[at]
		variant, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		file, err := variant.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if entry.Platform.String() != "linux/"+arch || file.Platform().String() != "linux/"+arch {
			t.Errorf("got a variant for %s, whose configuration is for %s, want linux/%s", entry.Platform, file.Platform(), arch)
		}
		want := v1.Config{
			User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/bin/x"}, Labels: map[string]string{"org.opencontainers.image.title": "X"},
			Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/bin/x", "health"}, Interval: 5 * time.Second, Retries: 6},
		}
		if diff := cmp.Diff(want, file.Config); diff != "" || !file.Created.Equal(image().Created) {
			t.Errorf("created %v; configuration (-want +got):\n%s", file.Created, diff)
		}
		files := []string{"drwxr-xr-x 0:0 bin/ ", "-rwxr-xr-x 0:0 bin/x a program for " + arch, "drwx------ 65532:65532 data/ "}
		if diff := cmp.Diff(files, filesOf(t, variant)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		document, err := variant.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if size, err := ocilayout.Size(t.TempDir(), image().Variants[at]); err != nil || size != document.Layers[0].Size {
			t.Errorf("got the size %d, %v, want %d, which the manifest has", size, err, document.Layers[0].Size)
		}
	}
}

// filesOf lists the one layer of an image, whose files all have the time 0.
func filesOf(t *testing.T, variant v1.Image) []string {
	t.Helper()
	layers, err := variant.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v, want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var files []string
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		text, readErr := io.ReadAll(reader)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 {
			t.Errorf("%s has the time %v, want the Dockerfile's", header.Name, header.ModTime)
		}
		files = append(files, fmt.Sprintf("%v %d:%d %s %s", header.FileInfo().Mode(), header.Uid, header.Gid, header.Name, text))
	}
}

// TestConfigWithoutHealthcheck requires that an image without a health check does not have an empty
// one, which engines would run.
func TestConfigWithoutHealthcheck(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(ocilayout.Config{})
	if err != nil || string(text) != "{}" {
		t.Errorf("got %s, %v, want nothing", text, err)
	}
}
