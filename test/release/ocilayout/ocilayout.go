// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ocilayout writes an image for several platforms as an OCI image layout in a tar, which
// skopeo, crane, podman and containerd read. The same image gives the same bytes, and so the same
// digest.
//
// An image has one layer. It is made from nothing: it has no base image.
package ocilayout

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/leatdev/leat/test/release/archive"
)

// containerdName is the annotation from which containerd takes the name of an image that it imports.
const containerdName = "io.containerd.image.name"

// epoch is the time of all files in layers: the same as in the Dockerfile, see there.
var epoch = time.Unix(0, 0)

// Image is an image for several platforms.
type Image struct {
	// Name is the whole reference, such as registry.example.com/team/web:1.2.3. Tag is its last part.
	Name, Tag string
	// Created is the time at which the image counts as made.
	Created time.Time
	// Config is how a container runs. Its labels are also the annotations of the index.
	Config Config
	// Variants are those for the platforms, in the order of the index.
	Variants []Variant
}

// Config is OCI's configuration of an image with Docker's extension of it.
type Config struct {
	ispec.ImageConfig
	// Healthcheck is nil if there is none. OCI does not know it; engines that do not either ignore it.
	Healthcheck *Healthcheck `json:"Healthcheck,omitempty"`
}

// Healthcheck is the command by which an engine finds out whether a container works.
type Healthcheck struct {
	// Test begins with CMD.
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Variant is the image for one platform.
type Variant struct {
	OS, Architecture string
	// Files are everything in its root, with the folders above them.
	Files []archive.Entry
}

// Write writes the layout of an image, and returns the digest of its index, by which registries and
// engines know the image. It keeps layers in the folder scratch, and leaves them there.
func Write(w io.Writer, scratch string, image Image) (digest.Digest, error) {
	all := blobs{scratch: scratch, entries: map[digest.Digest]archive.Entry{}}
	index := ispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ispec.MediaTypeImageIndex, Annotations: image.Config.Labels}
	for _, variant := range image.Variants {
		manifest, err := all.variant(image, variant)
		if err != nil {
			return "", fmt.Errorf("write image for %s/%s: %w", variant.OS, variant.Architecture, err)
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	top, err := all.document(ispec.MediaTypeImageIndex, index)
	if err != nil {
		return "", err
	}
	id := top.Digest
	top.Annotations = map[string]string{ispec.AnnotationRefName: image.Tag, containerdName: image.Name}
	list, err := json.Marshal(ispec.Index{Versioned: index.Versioned, MediaType: ispec.MediaTypeImageIndex, Manifests: []ispec.Descriptor{top}})
	if err != nil {
		return "", err
	}
	mark, err := json.Marshal(ispec.ImageLayout{Version: ispec.ImageLayoutVersion})
	if err != nil {
		return "", err
	}
	entries := []archive.Entry{
		{Name: ispec.ImageLayoutFile, Mode: 0o644, Content: mark},
		{Name: ispec.ImageIndexFile, Mode: 0o644, Content: list},
		{Name: ispec.ImageBlobsDir, Mode: os.ModeDir | 0o755},
		{Name: path.Join(ispec.ImageBlobsDir, string(digest.SHA256)), Mode: os.ModeDir | 0o755},
	}
	for _, e := range all.entries {
		entries = append(entries, e)
	}
	return id, archive.Tar(w, image.Created, entries)
}

// Size returns the bytes of the compressed layer of a variant, which a registry stores and a node
// pulls; its documents have a few hundred more. It keeps the layer in the folder scratch, and
// leaves it there.
func Size(scratch string, variant Variant) (int64, error) {
	layer, _, err := blobs{scratch: scratch, entries: map[digest.Digest]archive.Entry{}}.layer(variant.Files)
	return layer.Size, err
}

// blobs are the blobs of a layout. A blob that two variants share is in it once.
type blobs struct {
	scratch string
	entries map[digest.Digest]archive.Entry
}

// variant adds the blobs of one variant, and returns the descriptor of its manifest.
func (b blobs) variant(image Image, variant Variant) (ispec.Descriptor, error) {
	layer, content, err := b.layer(variant.Files)
	if err != nil {
		return ispec.Descriptor{}, err
	}
	platform := ispec.Platform{OS: variant.OS, Architecture: variant.Architecture}
	created := image.Created.UTC()
	config, err := b.document(ispec.MediaTypeImageConfig, configuration{
		Image: ispec.Image{
			Created: &created, Platform: platform,
			RootFS:  ispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{content}},
			History: []ispec.History{{Created: &created, CreatedBy: "leat-release"}},
		},
		Config: image.Config,
	})
	if err != nil {
		return ispec.Descriptor{}, err
	}
	manifest, err := b.document(ispec.MediaTypeImageManifest, ispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ispec.MediaTypeImageManifest, Config: config, Layers: []ispec.Descriptor{layer},
	})
	manifest.Platform = &platform
	return manifest, err
}

// configuration is ispec.Image with our Config in place of its own.
type configuration struct {
	ispec.Image
	Config Config `json:"config"`
}

// document adds a document in JSON.
func (b blobs) document(mediaType string, document any) (ispec.Descriptor, error) {
	content, err := json.Marshal(document)
	if err != nil {
		return ispec.Descriptor{}, err
	}
	id := digest.FromBytes(content)
	b.add(id, archive.Entry{Content: content})
	return ispec.Descriptor{MediaType: mediaType, Digest: id, Size: int64(len(content))}, nil
}

func (b blobs) add(id digest.Digest, e archive.Entry) {
	e.Name, e.Mode = path.Join(ispec.ImageBlobsDir, id.Algorithm().String(), id.Encoded()), 0o644
	b.entries[id] = e
}

// layer adds a layer, and also returns the digest of its tar before it is compressed.
func (b blobs) layer(files []archive.Entry) (layer ispec.Descriptor, content digest.Digest, err error) {
	f, err := os.CreateTemp(b.scratch, "layer-*.tar.gz")
	if err != nil {
		return ispec.Descriptor{}, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	compressed, plain := digest.SHA256.Digester(), digest.SHA256.Digester()
	zipped := gzip.NewWriter(io.MultiWriter(f, compressed.Hash()))
	if err := archive.Tar(io.MultiWriter(zipped, plain.Hash()), epoch, files); err != nil {
		return ispec.Descriptor{}, "", err
	}
	if err := zipped.Close(); err != nil {
		return ispec.Descriptor{}, "", err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return ispec.Descriptor{}, "", err
	}
	id := compressed.Digest()
	b.add(id, archive.Entry{File: f.Name()})
	return ispec.Descriptor{MediaType: ispec.MediaTypeImageLayerGzip, Digest: id, Size: size}, plain.Digest(), nil
}
