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
	"maps"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// parser reads manifests.
type parser struct {
	budget       *budget
	substitution *Substitution // nil leaves texts unchanged
	quotes       bool          // the text still has its author's quotes
	warn         func(string)  // nil refuses keys that occur twice, and else is told of them
}

// parse reads the documents of one file. Empty documents are skipped; lists are replaced by their
// items.
func (p parser) parse(name string, content []byte) ([]Object, error) {
	var all []Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for document := 1; ; document++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, &Error{Path: name, Document: document, Cause: err}
		}
		objects, err := p.document(name, document, text)
		if err != nil {
			return nil, &Error{Path: name, Document: document, Cause: err}
		}
		for _, o := range objects {
			all = append(all, Object{Unstructured: o, Path: name, Document: document})
		}
	}
}

// read reads what a step made.
func (p parser) read(d Document) ([]Object, error) {
	if !d.LastKeyWins {
		p.warn = nil
	}
	if !d.IsEncoded {
		return p.parse(d.Path, d.Text)
	}
	if err := checkSeparators(d.Text); err != nil {
		return nil, &Error{Path: d.Path, Document: 1, Cause: err}
	}
	objects, err := p.encoded(d.Text, d.Text)
	if err != nil {
		return nil, &Error{Path: d.Path, Document: 1, Cause: err}
	}
	all := make([]Object, len(objects))
	for i, o := range objects {
		all[i] = Object{Unstructured: o, Path: d.Path, Document: 1}
	}
	return all, nil
}

func (p parser) document(name string, number int, text []byte) ([]*unstructured.Unstructured, error) {
	if err := errors.Join(checkSeparators(text), CheckAliases(text, p.budget.limits.Text)); err != nil {
		return nil, err
	}
	// Strict mode rejects a duplicate key, which is a mistake whose first value would be dropped
	// silently.
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil && p.warn != nil {
		// If the text can be read after all, its only mistakes are such keys.
		strict := err
		if encoded, err = yaml.YAMLToJSON(text); err == nil {
			p.warn(fmt.Sprintf("%s: document %d: the last value counts of each key that is there twice: %s", name, number, oneLine(strict.Error())))
		}
	}
	if err != nil {
		return nil, err
	}
	return p.encoded(encoded, text)
}

// oneLine returns a text with single spaces in place of its line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// encoded reads a document in JSON, whose text in YAML or JSON is text.
func (p parser) encoded(encoded, text []byte) ([]*unstructured.Unstructured, error) {
	if err := p.budget.addText(int64(len(encoded))); err != nil {
		return nil, err
	}
	var value any
	// Numbers become int64 or float64, which code for unstructured objects expects.
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is a %s, want an object with apiVersion and kind", kindOf(value))
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return nil, missing(object)
	}
	if err := p.substitute(object, text); err != nil {
		return nil, err
	}
	return p.flatten(object, len(encoded))
}

// object checks and counts an object that was read before, and replaces its variables.
func (p parser) object(o Object) error {
	encoded, err := json.Marshal(o.Object)
	if err == nil {
		err = p.budget.addText(int64(len(encoded)))
	}
	if err == nil {
		err = p.substitute(o.Unstructured, nil)
	}
	if err == nil {
		_, err = p.flatten(o.Unstructured, len(encoded))
	}
	if err != nil {
		return &Error{Path: o.Path, Document: o.Document, Cause: err}
	}
	return nil
}

func (p parser) substitute(object *unstructured.Unstructured, text []byte) error {
	if p.substitution == nil {
		return nil
	}
	var node *yamlv3.Node
	if p.quotes && bytes.Contains(text, []byte("${")) {
		node = quotesOf(text)
	}
	return p.substitution.document(object.Object, node)
}

// flatten replaces a list by its items, and checks the remaining objects. encoded is an upper bound
// of the object's bytes as JSON.
func (p parser) flatten(object *unstructured.Unstructured, encoded int) ([]*unstructured.Unstructured, error) {
	if !object.IsList() {
		dropNulls(object)
		if err := p.budget.addObject(object.Object, encoded); err != nil {
			return nil, err
		}
		return []*unstructured.Unstructured{object}, check(object)
	}
	list, err := object.ToList()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", object.GetKind(), err)
	}
	var all []*unstructured.Unstructured
	for i := range list.Items {
		length, err := p.lengthOf(list.Items[i].Object, encoded)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		items, err := p.flatten(&list.Items[i], length)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		all = append(all, items...)
	}
	return all, nil
}

// lengthOf returns an upper bound of the bytes of an item of a list of list bytes. It returns list
// itself if the whole list is small enough to be one object.
func (p parser) lengthOf(item map[string]any, list int) (int, error) {
	if list <= p.budget.limits.ObjectBytes {
		return list, nil
	}
	encoded, err := json.Marshal(item)
	return len(encoded), err
}

func check(object *unstructured.Unstructured) error {
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return missing(object)
	}
	if err := checkMetadata(object); err != nil {
		return err
	}
	if object.GetName() != "" || object.GetGenerateName() != "" { // hooks may have the latter; package order rejects it on other objects
		return nil
	}
	return fmt.Errorf("%s has no metadata.name", object.GetKind())
}

// dropNulls removes the fields of metadata that are null. Templates write them for an empty map or
// an empty namespace, and the API server takes them for absent.
func dropNulls(object *unstructured.Unstructured) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(_ string, value any) bool { return value == nil })
}

// checkMetadata rejects values that YAML does not read as text, such as n, yes or 1.0 without
// quotes. Readers of metadata would ignore them, and the object would land in another namespace, or
// lose its labels.
func checkMetadata(object *unstructured.Unstructured) error {
	for _, field := range []string{"name", "generateName", "namespace"} {
		if _, _, err := unstructured.NestedString(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: metadata.%s is not text; put it in quotes", object.GetKind(), field)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s %s: metadata.%s holds a value that is not text; put it in quotes", object.GetKind(), object.GetName(), field)
		}
	}
	return nil
}

// errNoKind is the error for a text that can be read and is not a manifest.
var errNoKind = errors.New("has no kind; in a folder without a kustomization every .yaml, .yml and .json file is a manifest, " +
	"so leave out what is not one with the source's exclude, or name the manifests in a kustomization.yaml")

func missing(object *unstructured.Unstructured) error {
	if object.GetKind() == "" {
		return errNoKind
	}
	return fmt.Errorf("%s has no apiVersion", object.GetKind())
}

func kindOf(value any) string {
	switch value.(type) {
	case []any:
		return "list"
	case string:
		return "text"
	case bool:
		return "boolean"
	default:
		return "number"
	}
}
