// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/leatdev/leat/services/gitcache/internal/artifact"
)

const (
	chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// maxLayers bounds the layers of an artifact.
	maxLayers = 1000
	// maxNamed bounds the media types that a message names.
	maxNamed = 5
)

// picked is a layer that is delivered, and how.
type picked struct {
	ocispec.Descriptor
	isChart bool
	// name keeps the layer as a file of that name. Empty: it is unpacked.
	name string
}

// pick chooses the layers of an artifact that are delivered. The error is a *mirror.ArtifactError.
func pick(m ocispec.Manifest, want artifact.Layer) ([]picked, error) {
	if len(m.Layers) > maxLayers {
		return nil, unsupported("has more than %d layers", maxLayers)
	}
	if want.Files {
		return pickFiles(m.Layers)
	}
	layer, err := pickOne(m.Layers, want)
	if err != nil {
		return nil, err
	}
	if !want.Copy {
		return []picked{{Descriptor: layer, isChart: layer.MediaType == chartLayer}}, nil
	}
	name := layer.Annotations[ocispec.AnnotationTitle]
	if name == "" {
		return nil, unsupported("has a layer of the type %s without a title, so it has no name as a file; push it with the annotation %s",
			typeOf(layer), ocispec.AnnotationTitle)
	}
	return []picked{{Descriptor: layer, name: name}}, nil
}

func pickFiles(layers []ocispec.Descriptor) ([]picked, error) {
	var files []picked
	for _, layer := range layers {
		if name := layer.Annotations[ocispec.AnnotationTitle]; name != "" {
			files = append(files, picked{Descriptor: layer, name: name})
		}
	}
	if len(files) == 0 {
		return nil, unsupported("has no layer with a title (annotation %s), so there is no file", ocispec.AnnotationTitle)
	}
	return files, nil
}

// pickOne returns the layer of a media type; without one a chart's layer, the only one to copy, or
// the only one that can be unpacked.
func pickOne(layers []ocispec.Descriptor, want artifact.Layer) (ocispec.Descriptor, error) {
	var candidates []ocispec.Descriptor
	for _, layer := range layers {
		switch {
		case want.MediaType != "" && layer.MediaType == want.MediaType, want.MediaType == "" && !want.Copy && layer.MediaType == chartLayer:
			return layer, nil
		case want.MediaType == "" && (want.Copy || isArchive(layer.MediaType)):
			candidates = append(candidates, layer)
		}
	}
	switch {
	case len(candidates) == 1:
		return candidates[0], nil
	case want.MediaType != "":
		return ocispec.Descriptor{}, unsupported("has no layer of the type %s, but %s", want.MediaType, typesOf(layers))
	case len(candidates) > 1:
		return ocispec.Descriptor{}, unsupported("has several layers; choose one with the source's layer.mediaType: %s", typesOf(layers))
	case want.Copy:
		return ocispec.Descriptor{}, unsupported("has no layers")
	default:
		return ocispec.Descriptor{}, unsupported("has no layer that is a tar archive, but %s; take one as a file with the source's layer.copy",
			typesOf(layers))
	}
}

// isArchive reports whether a media type means a tar, compressed or not.
func isArchive(mediaType string) bool {
	_, subtype, _ := strings.Cut(mediaType, "/")
	for part := range strings.FieldsFuncSeq(subtype, func(r rune) bool { return r == '.' || r == '+' || r == '-' || r == '_' }) {
		if part == "tar" || part == "tgz" {
			return true
		}
	}
	return false
}

func typesOf(layers []ocispec.Descriptor) string {
	var names []string
	for _, layer := range layers[:min(len(layers), maxNamed)] {
		names = append(names, typeOf(layer))
	}
	if len(names) == 0 {
		return "none at all"
	}
	return strings.Join(names, ", ")
}

// typeOf returns the media type of a layer for a message.
func typeOf(layer ocispec.Descriptor) string {
	const enough = 120
	return strings.ToValidUTF8(layer.MediaType[:min(len(layer.MediaType), enough)], "")
}
