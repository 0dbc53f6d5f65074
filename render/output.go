// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// outputHead begins an encoded Output.
type outputHead struct {
	Objects   int       `json:"objects"`
	Tainted   []string  `json:"tainted,omitempty"`
	Secrets   []string  `json:"secrets,omitempty"`
	Generated Generated `json:"generated,omitempty"`
	Asked     Asked     `json:"asked,omitzero"`
	Warnings  []string  `json:"warnings,omitempty"`
	Notes     []string  `json:"notes,omitempty"`
}

// Encode returns the output as bytes for DecodeOutput. Equal outputs yield equal bytes.
func (o Output) Encode() ([]byte, error) {
	var buffer bytes.Buffer
	add := func(value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode rendered objects: %w", err)
		}
		return put(&buffer, text)
	}
	if err := add(outputHead{Objects: len(o.Objects), Tainted: o.Tainted, Secrets: o.Secrets, Generated: o.Generated, Asked: o.Asked, Warnings: o.Warnings, Notes: o.Notes}); err != nil {
		return nil, err
	}
	path := "" // of the object before: objects of one file follow each other
	for _, object := range o.Objects {
		place := encodedPlace{Document: object.Document}
		if object.Path != path {
			place.Path, path = object.Path, object.Path
		}
		if err := errors.Join(add(place), add(object.Object)); err != nil {
			return nil, err
		}
	}
	return buffer.Bytes(), nil
}

// encodedPlace precedes an object. An empty path means the path of the object before.
type encodedPlace struct {
	Path     string `json:"p,omitempty"`
	Document int    `json:"d,omitempty"`
}

// maxSecrets bounds the encoded Output.Secrets: callers give a render a few MiB of lookups, and
// JSON needs six bytes for some characters.
const maxSecrets = 24 << 20

// EncodedLimit is the most bytes that Encode returns for an output within the limits.
func (l Limits) EncodedLimit() int64 {
	const copies = 3 // the objects; the tainted texts among them; what JSON adds
	return copies*l.WithDefaults().Text + MaxGenerated + maxSecrets + maxWarnings*maxWarning + MaxNotes + 1<<20
}

// DecodeOutput reads what Encode returns, within the limits.
func DecodeOutput(text []byte, limits Limits) (Output, error) {
	limits = limits.WithDefaults()
	r := bufio.NewReader(bytes.NewReader(text))
	var head outputHead
	if err := decodeNext(r, limits.EncodedLimit(), json.Unmarshal, &head); err != nil {
		return Output{}, err
	}
	if head.Objects < 0 || head.Objects > limits.Objects {
		return Output{}, fmt.Errorf("decode rendered objects: got %d, want at most %d", head.Objects, limits.Objects)
	}
	out := Output{Tainted: head.Tainted, Secrets: head.Secrets, Generated: head.Generated, Asked: head.Asked, Warnings: head.Warnings, Notes: head.Notes}
	path := ""
	for range head.Objects {
		var place encodedPlace
		if err := decodeNext(r, maxName, json.Unmarshal, &place); err != nil {
			return Output{}, err
		}
		if place.Path != "" {
			path = place.Path
		}
		fields := map[string]any{}
		// Numbers become int64 or float64, which code for unstructured objects expects.
		if err := decodeNext(r, int64(limits.ObjectBytes), func(text []byte, v any) error { return utiljson.Unmarshal(text, v) }, &fields); err != nil {
			return Output{}, err
		}
		object := &unstructured.Unstructured{Object: fields}
		if err := check(object); err != nil {
			return Output{}, fmt.Errorf("decode rendered objects: %w", err)
		}
		out.Objects = append(out.Objects, Object{Unstructured: object, Path: path, Document: place.Document})
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return Output{}, errors.New("decode rendered objects: more bytes than objects")
	}
	return out, nil
}

// decodeNext reads one value of at most most bytes.
func decodeNext(r *bufio.Reader, most int64, unmarshal func([]byte, any) error, value any) error {
	text, err := take(r, most)
	if err != nil {
		return fmt.Errorf("decode rendered objects: %w", err)
	}
	if err := unmarshal(text, value); err != nil {
		return fmt.Errorf("decode rendered objects: %w", err)
	}
	return nil
}
