// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
)

// resolver computes the ids of all objects that are deltas. It goes from each base to what is made of it, deepest first.
type resolver struct {
	ctx     context.Context //nolint:containedctx // lives as long as one call
	file    *os.File
	records *records
	end     int64

	byBase  []reference // rising
	frames  []frame
	held    int64 // bytes of objects in frames
	hash    hasher
	inflate inflater
	buffer  *bufio.Reader
	delta   []byte
	spare   []byte
}

// frame is an object with what is still to be made of it.
type frame struct {
	object int32
	next   int32  // child to resolve next
	data   []byte // nil: dropped, to be made again when needed
}

func (r *resolver) run() error {
	r.hash, r.buffer = newHasher(), bufio.NewReaderSize(nil, 4<<10)
	r.collectReferences()
	for i := range r.records.n {
		if r.records.at(i).kind.isDelta() {
			continue
		}
		if err := r.resolve(i); err != nil {
			return err
		}
	}
	for i := range r.records.n {
		if rec := r.records.at(i); !rec.known {
			return fmt.Errorf("%w: object at %d has no base", ErrMalformed, rec.offset)
		}
	}
	return nil
}

// reference is a delta that names its base.
type reference struct {
	base   ID
	object int32
}

func (r *resolver) collectReferences() {
	for i := range r.records.n {
		if rec := r.records.at(i); rec.kind == kindRefDelta {
			r.byBase = append(r.byBase, reference{base: rec.id, object: i})
		}
	}
	slices.SortFunc(r.byBase, func(a, b reference) int { return bytes.Compare(a.base[:], b.base[:]) })
}

// adopt makes the reference deltas that name an object its children. An object that is there twice has none the second time.
func (r *resolver) adopt(object int32) {
	id := r.records.at(object).id
	first, _ := slices.BinarySearchFunc(r.byBase, id, func(ref reference, id ID) int { return bytes.Compare(ref.base[:], id[:]) })
	for i := first; i < len(r.byBase) && r.byBase[i].base == id; i++ {
		if child := r.byBase[i].object; r.records.at(child).base == none {
			r.records.link(child, object)
		}
	}
}

// resolve resolves everything that is made of an object which is no delta.
func (r *resolver) resolve(root int32) error {
	if len(r.byBase) > 0 {
		r.adopt(root)
	}
	rec := r.records.at(root)
	if rec.child == none {
		return nil
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	data, err := r.read(root, rec.size, nil)
	if err != nil {
		return err
	}
	r.push(root, data)
	for len(r.frames) > 0 {
		if err := r.step(rec.kind); err != nil {
			return err
		}
	}
	return nil
}

// step resolves one child of the object on top, or ends with that object.
func (r *resolver) step(k kind) error {
	top := len(r.frames) - 1
	child := r.frames[top].next
	if child == none {
		r.held -= int64(len(r.frames[top].data))
		r.spare = r.frames[top].data[:0]
		r.frames = r.frames[:top]
		return nil
	}
	rec := r.records.at(child)
	r.frames[top].next = rec.sibling
	data, err := r.make(top, child)
	if err != nil {
		return fmt.Errorf("object at %d: %w", rec.offset, err)
	}
	r.hash.begin(k, int64(len(data)))
	_, _ = r.hash.Write(data) // hashes never fail
	if rec.id, err = r.hash.end(); err != nil {
		return err
	}
	rec.known = true
	if len(r.byBase) > 0 {
		r.adopt(child)
	}
	if rec.child == none {
		r.spare = data[:0]
		return nil
	}
	r.push(child, data)
	return nil
}

// push puts an object on top, and drops the lowest ones where they are too much.
func (r *resolver) push(object int32, data []byte) {
	r.frames = append(r.frames, frame{object: object, next: r.records.at(object).child, data: data})
	r.held += int64(len(data))
	for i := 0; i < len(r.frames)-1 && r.held > retained; i++ {
		r.held -= int64(len(r.frames[i].data))
		r.frames[i].data = nil
	}
}

// make applies a delta to the object of a frame.
func (r *resolver) make(at int, delta int32) ([]byte, error) {
	base, err := r.data(at)
	if err != nil {
		return nil, err
	}
	if r.delta, err = r.read(delta, r.records.endOf(delta, r.end)-r.records.at(delta).offset, r.delta[:0]); err != nil {
		return nil, err
	}
	into := r.spare
	r.spare = nil
	return applyDelta(slices.Grow(into, int(min(r.records.at(delta).size, retained))), base, r.delta)
}

// data returns the object of a frame, made again where it was dropped.
func (r *resolver) data(at int) ([]byte, error) {
	if f := &r.frames[at]; f.data != nil {
		return f.data, nil
	}
	var data []byte
	var err error
	if at == 0 {
		data, err = r.read(r.frames[0].object, r.records.at(r.frames[0].object).size, nil)
	} else {
		data, err = r.make(at-1, r.frames[at].object)
	}
	if err != nil {
		return nil, err
	}
	if at < len(r.frames)-1 { // only what is on top stays
		return data, nil
	}
	r.frames[at].data = data
	r.held += int64(len(data))
	return data, nil
}

// read inflates an object's bytes, as they are in the pack, and appends them to into. hint is how many there may be.
func (r *resolver) read(object int32, hint int64, into []byte) ([]byte, error) {
	rec := r.records.at(object)
	section := io.NewSectionReader(r.file, rec.offset, r.records.endOf(object, r.end)-rec.offset)
	r.buffer.Reset(section)
	if _, err := readHead(r.buffer); err != nil {
		return nil, err
	}
	body, err := r.inflate.open(r.buffer)
	if err != nil {
		return nil, err
	}
	into = slices.Grow(into, int(min(hint, retained))+1) // one more, to see the end
	for {
		if len(into) == cap(into) {
			into = slices.Grow(into, len(into)/4+512)
		}
		n, err := body.Read(into[len(into):cap(into)])
		into = into[:len(into)+n]
		if err == io.EOF {
			return into, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
