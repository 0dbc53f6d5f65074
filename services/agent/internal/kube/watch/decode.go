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

// metadata has the fields that are read of an object if only metadata is requested, and of the
// Status in an error event. The omitted fields, above all managedFields, are most of what the
// server sends, and cost little if they are not decoded.
type metadata struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string         `json:"name"`
		Namespace       string         `json:"namespace"`
		UID             string         `json:"uid"`
		ResourceVersion string         `json:"resourceVersion"`
		Labels          map[string]any `json:"labels"`
		Annotations     map[string]any `json:"annotations"`
	} `json:"metadata"`

	Status  any `json:"status"`
	Message any `json:"message"`
	Reason  any `json:"reason"`
	Details any `json:"details"`
	Code    any `json:"code"`
}

// object returns the unstructured object, without empty fields.
func (m *metadata) object() map[string]any {
	inner := map[string]any{}
	for name, value := range map[string]string{
		"name": m.Metadata.Name, "namespace": m.Metadata.Namespace, "uid": m.Metadata.UID, "resourceVersion": m.Metadata.ResourceVersion,
	} {
		if value != "" {
			inner[name] = value
		}
	}
	if m.Metadata.Labels != nil {
		inner["labels"] = m.Metadata.Labels
	}
	if m.Metadata.Annotations != nil {
		inner["annotations"] = m.Metadata.Annotations
	}
	o := map[string]any{"metadata": inner}
	for name, value := range map[string]any{
		"status": m.Status, "message": m.Message, "reason": m.Reason, "details": m.Details, "code": m.Code,
	} {
		if value != nil {
			o[name] = value
		}
	}
	if m.Kind != "" { // items of a list have no kind
		o["kind"], o["apiVersion"] = m.Kind, m.APIVersion
	}
	return o
}

// reader decodes a body object by object, so that memory follows the largest object and not the
// number of objects.
type reader struct {
	source   *bounded
	decoder  kjson.Decoder
	limit    int  // bytes of one object
	metadata bool // only metadata is decoded
}

func newReader(body io.Reader, limit int, metadata bool) *reader {
	source := &bounded{source: body, left: limit}
	return &reader{source: source, limit: limit, metadata: metadata, decoder: kjson.NewDecoderCaseSensitivePreserveInts(source)}
}

// event reads the next event. The error is io.EOF only at the end of an event.
func (r *reader) event() (e event, err error) {
	if !r.metadata {
		err = r.decode(&e)
		return e, err
	}
	var lean struct {
		Type   string   `json:"type"`
		Object metadata `json:"object"`
	}
	if err := r.decode(&lean); err != nil {
		return event{}, err
	}
	return event{Type: lean.Type, Object: lean.Object.object()}, nil
}

// object reads the next object of a list.
func (r *reader) object() (object map[string]any, err error) {
	if !r.metadata {
		err = r.decode(&object)
		return object, err
	}
	var lean metadata
	if err := r.decode(&lean); err != nil {
		return nil, err
	}
	return lean.object(), nil
}

// decode reads the next JSON value. The error is io.EOF only at the end of a value.
func (r *reader) decode(into any) error {
	r.source.left = r.limit
	return r.decoder.Decode(into)
}

// list reads a list, and passes each item on as soon as it has been read.
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
		object, err := r.object()
		if err != nil {
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

// bounded reads at most left bytes. The reader resets left for each value.
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
