// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// cutter cuts YAML in block style into the texts of charts, by their indentation:
//
//	apiVersion: v1          outside
//	entries:                outside
//	  web:                  a chart's key; the first chart's gives the column
//	  - version: 1.0.0      an item, in the column of the key or right of it
//	    urls: [web.tgz]
//	generated: …            outside
//
// It reads only the beginnings of lines. Two constructs of YAML let a value continue left of where
// it began: a quoted text and a value in flow style. A cut in one of them leaves a piece with an
// open quote or bracket, which the decoder refuses; so does a piece with the alias of an anchor in
// another one. Either is an *uncutError. No line of a value in block style, nor of a plain text, is
// left of its parent.
//
// Charts that are not selected are not decoded, and may be anything.
type cutter struct {
	pieces
	collect *collector

	outside  strings.Builder // the lines beside the entries
	begun    bool            // there was content
	line     int             // of outside: the number of lines so far
	entries  int             // the line of outside that has the key entries; 0: none yet
	isWithin bool            // below the key entries
	column   int             // of the keys of charts; 0: not known yet
	block    block
}

// block is the text of one chart, whose end was not seen yet. The zero block is none.
type block struct {
	from  int64
	key   string // its first line
	after int64  // where its second line begins
}

// parseCut reads an index of YAML chart by chart.
func parseCut(s Source, c *collector, stop func() error) error {
	k := &cutter{pieces: pieces{source: s, stop: stop}, collect: c}
	l := newLines(s, span{0, s.Size})
	for n := 0; l.next(); n++ {
		if n%1024 == 0 && stop() != nil {
			return stop()
		}
		isEnd, err := k.take(l)
		if err != nil {
			return err
		}
		if isEnd {
			l.end = l.at // which is where the last block ends
			break
		}
	}
	if l.err != nil {
		return fmt.Errorf("read index: %w", l.err)
	}
	if err := k.endBlock(l.end); err != nil {
		return err
	}
	return k.checkOutside()
}

// take takes the next line. It returns true where the line ends the document.
func (k *cutter) take(l *lines) (isEnd bool, err error) {
	switch {
	case l.kind == lineMark && k.begun:
		return true, nil
	case l.kind == lineDirective && !k.begun:
		return false, &uncutError{why: "begins with a directive of YAML"}
	case k.isWithin && (l.kind != lineContent || l.column > 0):
		return false, k.takeWithin(l)
	}
	if l.kind == lineContent || l.kind == lineMark {
		if err := k.endBlock(l.at); err != nil {
			return false, err
		}
		k.begun, k.isWithin = true, false
	}
	return false, k.takeOutside(l)
}

// takeOutside takes a line beside the entries, or is their key.
func (k *cutter) takeOutside(l *lines) error {
	if l.isLong || k.outside.Len()+len(l.head) > maxOutside {
		return &FormatError{Why: fmt.Sprintf("has more than %d bytes beside its entries, or a line of more than %d there", maxOutside, maxHead)}
	}
	k.line++
	k.outside.Write(l.head)
	if !l.isEntries() {
		return nil
	}
	if k.entries > 0 {
		return &uncutError{why: "has its entries twice"}
	}
	k.entries, k.isWithin = k.line, true
	return nil
}

// takeWithin takes a line below the key entries. A line that is neither a key nor an item belongs
// to the block before it, whatever it is.
func (k *cutter) takeWithin(l *lines) error {
	if l.kind != lineContent {
		if k.column == 0 && l.kind == lineTab {
			return &uncutError{why: "has a tab where a chart is expected"}
		}
		return nil
	}
	if k.column == 0 {
		k.column = l.column
	}
	if l.column != k.column || l.isItem() {
		if k.block.after == 0 {
			return &uncutError{why: "has entries that are not a list of charts"}
		}
		return nil
	}
	if err := k.endBlock(l.at); err != nil {
		return err
	}
	k.block = block{from: l.at, key: string(l.head), after: l.end}
	return nil
}

// endBlock reads the chart whose text ends at that offset, if there is one.
func (k *cutter) endBlock(at int64) error {
	b := k.block
	k.block = block{}
	if b.after == 0 {
		return nil
	}
	if err := k.stop(); err != nil {
		return err
	}
	name, isPlain := keyOf(b.key)
	if !isPlain {
		return k.readInline(span{b.from, at})
	}
	isKept, err := k.collect.admit(name)
	if err != nil || !isKept {
		return err
	}
	sum, err := k.sum(span{b.from, at})
	if err != nil {
		return err
	}
	chart, isKnown := k.collect.unchanged(name, sum)
	if !isKnown {
		v := k.collect.newVersions(name, sum)
		if err := readItems(k.pieces, v, span{b.after, at}); err != nil {
			return err
		}
		chart = v.chart
	}
	return k.collect.add(chart)
}

// keyOf returns the name of a chart from the line with its key. False: the line has more than a
// key, or less.
func keyOf(line string) (name string, isPlain bool) {
	mapping, err := decodePiece([]byte(line))
	if err != nil || !isPair(mapping) {
		return "", false
	}
	pair := mapping.Content
	value := pair[1]
	isEmpty := value.Kind == yaml.ScalarNode && value.Value == "" && value.Style == 0 && value.Anchor == ""
	return pair[0].Value, isEmpty
}

// isPair reports whether a node is a mapping of one name.
func isPair(mapping *yaml.Node) bool {
	return mapping.Kind == yaml.MappingNode && len(mapping.Content) == 2 && isName(mapping.Content[0])
}

// isName reports whether a key is a plain text: not null, binary, an alias or a merge key.
func isName(key *yaml.Node) bool {
	if key.Kind != yaml.ScalarNode {
		return false
	}
	switch key.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return true
	}
	return false
}

// readInline reads a chart that has its list in flow style, or behind an anchor or an alias.
func (k *cutter) readInline(part span) error {
	if part.to-part.from > maxWhole {
		return &uncutError{why: "has a chart in flow style"}
	}
	mapping, err := k.decode(part)
	if err != nil {
		return err
	}
	if !isPair(mapping) {
		return &uncutError{why: "has a chart in an odd form"}
	}
	return addNode(k.collect, mapping.Content[0].Value, "", mapping.Content[1])
}

// checkOutside checks the lines beside the entries.
func (k *cutter) checkOutside() error {
	if k.entries == 0 {
		return &uncutError{why: "has no entries in block style"}
	}
	doc, unread := decodePiece([]byte(k.outside.String()))
	if unread != nil {
		return &uncutError{why: unread.Why}
	}
	var top struct {
		APIVersion string    `yaml:"apiVersion"`
		Entries    yaml.Node `yaml:"entries"`
	}
	if err := doc.Decode(&top); err != nil {
		return &uncutError{why: "cannot be read: " + shorten(err.Error())}
	}
	// The line that was taken for the key has to be the key.
	if top.Entries.Line != k.entries || top.Entries.Value != "" || top.Entries.Kind != yaml.ScalarNode {
		return &uncutError{why: "has no entries in block style"}
	}
	return checkAPIVersion(top.APIVersion)
}
