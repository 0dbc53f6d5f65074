// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// In YAML a few bytes can expand to gigabytes: an alias repeats the content of its anchor, which
// may hold aliases again. Decoders expand aliases. The one decoder that counts ("excessive
// aliasing") counts values, not bytes: it accepts a list that repeats a text of 1 MiB 10,000 times.
// So the expanded size of a document is computed before any decoder reads it.

// perValue is the size of a value in addition to the size of its text.
const perValue = 8

// maxSeparators bounds the values of one document before it is decoded: every value comes with a
// separator.
const maxSeparators = 250_000

// CheckAliases returns a *LimitError if the documents of a text are larger than limit once their
// aliases are expanded. It accepts text that is not YAML, because the decoder reports that better.
//
// Kustomize splits a text into documents before it decodes them. So it decodes documents behind one
// that ends a decoder of the whole text. If the whole text cannot be decoded, CheckAliases checks
// each document alone.
func CheckAliases(text []byte, limit int64) error {
	if bytes.IndexByte(text, '&') < 0 || bytes.IndexByte(text, '*') < 0 {
		return nil // an alias needs both
	}
	total, err := expanded(text, limit)
	if err != nil {
		total = 0
		for _, document := range documentStart.Split(string(text), -1) {
			size, _ := expanded([]byte(document), limit)
			total = add(total, size)
		}
	}
	if total > limit {
		return exceeded(LimitText, "YAML aliases make it larger than %s; write out what they stand for, or repeat less of it", sizeText(limit))
	}
	return nil
}

// documentStart matches the lines at which kustomize splits a text, among others.
var documentStart = regexp.MustCompile(`(?m)^---`)

// expanded returns the bytes of a text's documents with their aliases expanded. It stops at an
// error of the decoder, and when the documents exceed limit.
func expanded(text []byte, limit int64) (total int64, err error) {
	m := measure{sizes: map[*yaml.Node]int64{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for total <= limit {
		document := new(yaml.Node)
		if err := decoder.Decode(document); errors.Is(err, io.EOF) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		total = add(total, m.size(document))
	}
	return total, nil
}

// checkSeparators returns a *LimitError if the document may hold more values than allowed.
func checkSeparators(text []byte) error {
	separators := 0
	for i, c := range text {
		switch c {
		case ',', ':', '[', '{', '?':
			separators++
		case '-':
			if i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n' || text[i+1] == '\t' || text[i+1] == '\r' {
				separators++
			}
		}
	}
	if separators > maxSeparators {
		return exceeded(LimitValues, "one document may hold more than %d values; put its objects into documents of their own", maxSeparators)
	}
	return nil
}

// measure computes sizes of nodes. It visits each node once, however many aliases lead to it.
type measure struct {
	sizes map[*yaml.Node]int64 // of anchored nodes; -1 while one is being computed
}

// size returns the bytes of a node with its aliases expanded, or math.MaxInt64 if the node contains
// itself.
func (m measure) size(node *yaml.Node) int64 {
	if node.Kind == yaml.AliasNode {
		return m.anchored(node.Alias)
	}
	if node.Anchor != "" {
		return m.anchored(node)
	}
	return m.sum(node)
}

func (m measure) anchored(node *yaml.Node) int64 {
	known, ok := m.sizes[node]
	if ok && known < 0 {
		return math.MaxInt64
	}
	if !ok {
		m.sizes[node] = -1
		known = m.sum(node)
		m.sizes[node] = known
	}
	return known
}

func (m measure) sum(node *yaml.Node) int64 {
	total := int64(len(node.Value)) + perValue
	for _, child := range node.Content {
		total = add(total, m.size(child))
	}
	return total
}

// add returns a+b, or math.MaxInt64 if the sum overflows.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
