// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

var errTooLarge = errors.New("the server sends an object that is too large")

// event is one message of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// reader decodes a body piece by piece, so that memory follows the largest object and not the number of objects.
type reader struct {
	source  *bounded
	decoder kjson.Decoder
	limit   int // bytes of one object
}

func newReader(body io.Reader, limit int) *reader {
	source := &bounded{source: body, left: limit}
	return &reader{source: source, limit: limit, decoder: kjson.NewDecoderCaseSensitivePreserveInts(source)}
}

// decode reads the next JSON value. The error is io.EOF only where a value could have begun.
func (r *reader) decode(into any) error {
	r.source.left = r.limit
	return r.decoder.Decode(into)
}

// list reads a list and hands each item over when it has been read.
func (r *reader) list(item func(object map[string]any)) (meta metav1.ListMeta, err error) {
	if err := r.expect(json.Delim('{')); err != nil {
		return meta, err
	}
	for r.decoder.More() {
		name, err := r.decoder.Token()
		if err != nil {
			return meta, err
		}
		switch name {
		case "metadata":
			err = r.decode(&meta)
		case "items":
			err = r.items(item)
		default:
			err = r.decode(new(any))
		}
		if err != nil {
			return meta, err
		}
	}
	return meta, r.expect(json.Delim('}'))
}

func (r *reader) items(item func(object map[string]any)) error {
	token, err := r.decoder.Token()
	if err != nil || token == nil { // the list is null
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("items: %w", errNotAList)
	}
	for r.decoder.More() {
		var object map[string]any
		if err := r.decode(&object); err != nil {
			return err
		}
		item(object)
	}
	return r.expect(json.Delim(']'))
}

var errNotAList = errors.New("the answer is not a list of objects")

func (r *reader) expect(want json.Delim) error {
	r.source.left = r.limit
	token, err := r.decoder.Token()
	if err != nil {
		return err
	}
	if token != want {
		return errNotAList
	}
	return nil
}

// bounded reads at most left bytes, which whoever decodes sets anew for each value.
type bounded struct {
	source io.Reader
	left   int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.source.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
