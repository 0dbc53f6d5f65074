// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/leatdev/leat/test/release"
)

// TestReleasesHaveTheImagesOfTheDockerfile makes a release of the tunnel of the commit that is checked out, and has the
// engine build its image of the same commit. Both have the same files, byte for byte, and run alike.
func TestReleasesHaveTheImagesOfTheDockerfile(t *testing.T) {
	t.Parallel()
	e := requireEngine(t)
	checkout, folder := filepath.Join(t.TempDir(), "leat"), t.TempDir()
	if _, err := e.run(t, nil, "git", "clone", "--quiet", ".", checkout); err != nil {
		t.Fatal(err)
	}
	revision, err := e.run(t, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	version, err := release.ParseVersion("v0.0.0-test")
	if err != nil {
		t.Fatal(err)
	}
	err = release.Make(t.Context(), release.Params{
		Top: checkout, Out: folder, Version: version, Programs: []string{"tunnel"}, Platforms: []release.Platform{{OS: "linux", Arch: runtime.GOARCH}},
	})
	if err != nil {
		t.Fatal(err)
	}
	builds.Lock()
	defer builds.Unlock()
	name := e.own.Name("tunnel") + ":release"
	e.build(t, "--build-arg", "SERVICE=tunnel", "--build-arg", "VERSION="+version.Number(), "--build-arg", "REVISION="+revision,
		"--tag", name, checkout)
	defer e.ask(t, "image", "rm", name)

	released := releasedImage(t, filepath.Join(folder, "leat-tunnel_"+version.Number()+"_image.oci.tar"))
	if diff := cmp.Diff(e.contents(t, name), layerOf(t, released)); diff != "" {
		t.Errorf("files of the engine's image and of the release's (-engine +release):\n%s", diff)
	}
	file, err := released.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	built, config := e.image(t, name).Config, file.Config
	if config.Healthcheck == nil || built.Healthcheck == nil {
		t.Fatalf("got health checks %v and %v, want one in each image", built.Healthcheck, config.Healthcheck)
	}
	for what, pair := range map[string][2]any{
		"user": {built.User, config.User}, "environment": {built.Env, config.Env}, "entry point": {built.Entrypoint, config.Entrypoint},
		"labels": {built.Labels, config.Labels}, "health check": {built.Healthcheck.Test, config.Healthcheck.Test},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-engine +release):\n%s", what, diff)
		}
	}
}

// releasedImage returns the one image of a layout in a tar.
func releasedImage(t *testing.T, file string) v1.Image {
	t.Helper()
	folder := t.TempDir()
	e := engine{}
	if _, err := e.run(t, nil, "tar", "-xf", file, "-C", folder); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(folder)
	for err == nil {
		manifest, readErr := index.IndexManifest()
		if readErr != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("got %+v, %v, want one image for one platform", manifest, readErr)
		}
		entry := manifest.Manifests[0]
		if !entry.MediaType.IsIndex() {
			image, err := index.Image(entry.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
		index, err = index.ImageIndex(entry.Digest)
	}
	t.Fatal(err)
	return nil
}

// layerOf returns the content of the one layer of an image.
func layerOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v, want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	return contentsOf(t, content)
}

// contents returns the content of an image of the engine.
func (e *engine) contents(t *testing.T, image string) map[string]string {
	t.Helper()
	id := e.ask(t, "create", image)
	defer e.ask(t, "rm", id)
	exported := filepath.Join(t.TempDir(), "image.tar")
	e.ask(t, "export", "--output", exported, id)
	f, err := os.Open(exported)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return contentsOf(t, f)
}

// contentsOf returns the mode, the owner and the sum of each file of a tar, by its path, without
// files that an engine makes in every container.
func contentsOf(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	found := map[string]string{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		sum := sha256.New()
		_, readErr := io.Copy(sum, reader)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if !isMadeByEngine(header.Name) {
			found[header.Name] = fmt.Sprintf("%v %d:%d %x", header.FileInfo().Mode(), header.Uid, header.Gid, sum.Sum(nil))
		}
	}
}
