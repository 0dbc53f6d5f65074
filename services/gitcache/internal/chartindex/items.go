// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// itemReader reads the list of one chart, some items at a time.
type itemReader struct {
	pieces
	versions *versions
	column   int // of the items; -1: not known yet

	from  int64 // where the items begin that were not decoded yet
	item  int64 // where the last of them begins
	items int   // how many there are
}

// readItems reads the list of versions in a part of the source.
func readItems(p pieces, v *versions, part span) error {
	r := &itemReader{pieces: p, versions: v, column: -1}
	l := newLines(p.source, part)
	for l.next() {
		if l.kind == lineBlank || l.kind == lineComment {
			continue
		}
		if r.column < 0 {
			if l.kind != lineContent || !l.isItem() {
				return &uncutError{why: fmt.Sprintf("has a chart that is not a list of versions, near byte %d", part.from)}
			}
			r.column, r.from = l.column, l.at
		}
		if l.kind == lineContent && l.column == r.column && l.isItem() {
			if err := r.begin(l.at); err != nil {
				return err
			}
		}
	}
	if l.err != nil {
		return fmt.Errorf("read index: %w", l.err)
	}
	if err := r.end(part.to); err != nil {
		return err
	}
	return r.flush(part.to)
}

// begin begins an item at an offset, which ends the one before.
func (r *itemReader) begin(at int64) error {
	if err := r.end(at); err != nil {
		return err
	}
	if at-r.from >= batch {
		if err := r.flush(at); err != nil {
			return err
		}
	}
	r.item = at
	r.items++
	return nil
}

// end ends the last item at an offset. One that is too long is left out.
func (r *itemReader) end(at int64) error {
	if r.items == 0 || at-r.item <= maxEntry {
		return nil
	}
	r.items--
	if err := r.flush(r.item); err != nil {
		return err
	}
	r.from = at
	return r.versions.skip(fmt.Sprintf("an entry has %d bytes; at most %d are read", at-r.item, maxEntry))
}

// flush decodes the items that end before an offset.
func (r *itemReader) flush(to int64) error {
	if r.items == 0 {
		return nil
	}
	if err := r.stop(); err != nil {
		return err
	}
	list, err := r.decode(span{r.from, to})
	if err != nil {
		return err
	}
	if list.Kind != yaml.SequenceNode || len(list.Content) != r.items {
		return &uncutError{why: fmt.Sprintf("has a list of versions in an odd form, near byte %d", r.from)}
	}
	r.from, r.items = to, 0
	return addItems(r.versions, list)
}
