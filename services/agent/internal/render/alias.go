// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"math"

	"go.yaml.in/yaml/v3"
)

// In YAML a few bytes can stand for gigabytes: an alias repeats what its anchor holds, and that may hold aliases again. Decoders do
// repeat it, and the one that counts ("excessive aliasing") counts values, not bytes: a text of 1 MiB that stands in a list 10,000
// times passes. So the size that a document has without aliases is computed before anything decodes it.

// perValue is what a value counts besides its text.
const perValue = 8

// maxSeparators bounds the values of one document before it is read: no value comes without a separator.
const maxSeparators = 250_000

// checkAliases returns a *LimitError when the documents of a text are larger than limit once their aliases are replaced. What is no
// YAML passes: the decoder reports it better.
func checkAliases(text []byte, limit int64) error {
	if bytes.IndexByte(text, '&') < 0 || bytes.IndexByte(text, '*') < 0 {
		return nil // an alias needs both
	}
	m := measure{sizes: map[*yaml.Node]int64{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	total, document := int64(0), new(yaml.Node)
	for ; decoder.Decode(document) == nil; document = new(yaml.Node) {
		if total = add(total, m.size(document)); total > limit {
			return exceeded(LimitText, "YAML aliases make it larger than %s; write out what they stand for, or repeat less of it", size(limit))
		}
	}
	return nil
}

// checkSeparators returns a *LimitError when a document may hold more values than one may have.
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

// measure computes sizes of nodes. Each is looked at once, however many aliases lead to it.
type measure struct {
	sizes map[*yaml.Node]int64 // of anchored nodes; -1 while one is being computed
}

// size returns the bytes of a node without aliases, math.MaxInt64 for those that hold themselves.
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

// add adds without going round.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
