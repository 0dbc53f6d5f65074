// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// span is a part of the source.
type span struct{ from, to int64 }

// pieces are the parts of a source.
type pieces struct {
	source Source
	stop   func() error // why to stop, or nil
}

// sum returns the SHA-256 of a part of the source.
func (p pieces) sum(part span) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(p.source, part.from, part.to-part.from)); err != nil {
		return "", fmt.Errorf("read index: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// decode decodes a part of the source by itself.
func (p pieces) decode(part span) (*yaml.Node, error) {
	text := make([]byte, part.to-part.from)
	if _, err := io.ReadFull(io.NewSectionReader(p.source, part.from, part.to-part.from), text); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	node, err := decodePiece(text)
	if err != nil {
		return nil, &uncutError{why: fmt.Sprintf("cannot be cut into charts: near byte %d it %s", part.from, err.Why)}
	}
	return node, nil
}

// checkMarks counts the marks that can be between nodes. Every node takes some 200 bytes of memory,
// and a stranger can put one into two bytes of text. The library bounds aliases and depth itself.
func checkMarks(text []byte) *FormatError {
	marks := 0
	for _, c := range text {
		switch c {
		case ',', ':', '-', '[', '{', '?', '*', '&':
			marks++
		}
	}
	if marks > maxMarks {
		return &FormatError{Why: fmt.Sprintf("has more than %d values in a piece that has to be decoded at once", maxMarks)}
	}
	return nil
}

// decode decodes the first document of a text.
func decode(text []byte, into any) *FormatError {
	if err := checkMarks(text); err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return &FormatError{Why: "cannot be read: " + shorten(err.Error())}
	}
	return nil
}

// decodePiece decodes a text that was cut out of a document, and is to be one by itself.
func decodePiece(text []byte) (*yaml.Node, *FormatError) {
	if err := checkMarks(text); err != nil {
		return nil, err
	}
	var doc, rest yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); err != nil {
		return nil, &FormatError{Why: "cannot be read: " + shorten(err.Error())}
	}
	if err := decoder.Decode(&rest); !errors.Is(err, io.EOF) {
		return nil, &FormatError{Why: "has something after its end"}
	}
	return doc.Content[0], nil
}

// addNode keeps a chart whose list of versions was decoded in one piece.
func addNode(c *collector, name, sum string, list *yaml.Node) error {
	isKept, err := c.admit(name)
	if err != nil || !isKept {
		return err
	}
	v := c.newVersions(name, sum)
	if err := addItems(v, list); err != nil {
		return err
	}
	return c.add(v.chart)
}

// addItems adds the versions that a list has.
func addItems(v *versions, list *yaml.Node) error {
	for list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	switch {
	case list.Kind == yaml.SequenceNode:
	case list.Kind == yaml.ScalarNode && list.ShortTag() == "!!null":
		return nil
	default:
		return v.skip("it is not a list of versions")
	}
	for _, item := range list.Content {
		var e *entry
		if err := item.Decode(&e); err != nil {
			if err := v.skip("an entry has values of the wrong type, or a key twice"); err != nil {
				return err
			}
			continue
		}
		if err := v.add(e); err != nil {
			return err
		}
	}
	return nil
}
