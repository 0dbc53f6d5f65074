// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// KeepAnnotation leaves an object as it is if its value is "keep": it is for objects that something
// in the cluster opens.
const (
	KeepAnnotation = "leat.dev/sops"
	keep           = "keep"
)

func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// MACOf returns the MAC of an encrypted object as its file has it, and reports whether the object is
// one. It identifies the file.
func MACOf(object map[string]any) (mac string, isEncrypted bool) {
	block, _ := object[MetadataField].(map[string]any)
	mac, isEncrypted = block["mac"].(string)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[KeepAnnotation] == keep {
			return "", false
		}
	}
	return mac, isEncrypted
}

// MAC returns the MAC of the file.
func (f *File) MAC() string { return f.mac }

// Fill replaces the encrypted texts of an object of the file by their values, and removes what SOPS
// has added. It returns the values, in any order. The object may be changed in part if there is an
// error: an encrypted text is not where the file has it, or is shown to people.
func (f *File) Fill(object map[string]any) (opened []any, err error) {
	delete(object, MetadataField)
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		if holdsEncrypted(object[key]) {
			return nil, fmt.Errorf("%s is encrypted, and has to be readable; encrypt only what is secret, such as with encrypted_regex: ^(data|stringData)$", key)
		}
	}
	w := filling{values: f.values}
	_, err = w.value(object, "")
	return w.opened, err
}

// filling is one Fill.
type filling struct {
	values map[place]any
	opened []any
}

func (w *filling) value(value any, path string) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			replaced, err := w.value(v[key], path+key+":")
			if err != nil {
				return nil, err
			}
			v[key] = replaced
		}
	case []any:
		for i, item := range v {
			replaced, err := w.value(item, path)
			if err != nil {
				return nil, err
			}
			v[i] = replaced
		}
	case string:
		if !strings.HasPrefix(v, prefix) {
			return v, nil
		}
		opened, ok := w.values[place{path, v}]
		if !ok {
			return nil, fmt.Errorf("%s: holds an encrypted text that its file does not have there", pathText(path))
		}
		w.opened = append(w.opened, opened)
		return opened, nil
	}
	return value, nil
}

// holdsEncrypted reports whether an encrypted text is part of a value.
func holdsEncrypted(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), holdsEncrypted)
	case []any:
		return slices.ContainsFunc(v, holdsEncrypted)
	case string:
		return strings.HasPrefix(v, prefix)
	}
	return false
}
