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

// resolver computes the ids of all objects that are deltas. It goes from each base to its children,
// depth first.
//
// An object stays on the stack until its last child is begun, so every object on the stack has, or
// had, more than one child to make. The child with the most descendants comes last, so the height
// of the stack is at most the logarithm of the number of objects, whatever shape the deltas have.
// This holds for offset deltas only: bases named by id are known too late to be counted.
//
// Objects on the stack share [retained] bytes. When they need more, they lose their data from the
// bottom of the stack. When an object without data is on top, the resolver makes it again from the
// root of its chain. So the frames from held on have data, and the frames below do not. Objects
// that are made again count as work, and work is bounded.
type resolver struct {
	ctx     context.Context //nolint:containedctx // lives as long as one call
	file    *os.File
	records *records
	end     int64
	limits  limits

	byBase   []reference // rising
	frames   []frame
	held     int   // the lowest frame with data
	retained int64 // bytes of data in frames
	made     int64 // bytes that deltas have produced so far, including objects that were made again
	path     []int32
	hash     hasher
	inflate  inflater
	buffer   *bufio.Reader
	delta    []byte
	spare    []byte
}

// frame is an object with children that are still to be made.
type frame struct {
	object int32
	next   int32  // child to make next, never none
	data   []byte // valid in frames from [resolver.held] on; otherwise it is made again when needed
}

// run resolves all deltas. A delta that no object was a base for is an error: the pack is not
// complete.
func (r *resolver) run() error {
	r.hash, r.buffer = newHasher(), bufio.NewReaderSize(nil, 4<<10)
	r.collectReferences()
	r.records.heaviestLast()
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

// collectReferences sorts the reference deltas by the names of their bases, for adopt.
func (r *resolver) collectReferences() {
	for i := range r.records.n {
		if rec := r.records.at(i); rec.kind == kindRefDelta {
			r.byBase = append(r.byBase, reference{base: rec.id, object: i})
		}
	}
	slices.SortFunc(r.byBase, func(a, b reference) int { return bytes.Compare(a.base[:], b.base[:]) })
}

// adopt makes the reference deltas that name an object its children. An object that is there twice
// has none the second time.
func (r *resolver) adopt(object int32) {
	id := r.records.at(object).id
	first, _ := slices.BinarySearchFunc(r.byBase, id, func(ref reference, id ID) int { return bytes.Compare(ref.base[:], id[:]) })
	for i := first; i < len(r.byBase) && r.byBase[i].base == id; i++ {
		child := r.byBase[i].object
		if r.records.at(child).base != none { // another object with this id has adopted all of them
			return
		}
		r.records.link(child, object)
	}
}

// resolve resolves all deltas of an object that is not a delta.
func (r *resolver) resolve(root int32) error {
	if len(r.byBase) > 0 {
		r.adopt(root)
	}
	rec := r.records.at(root)
	if rec.child == none {
		return nil
	}
	data, err := r.read(root, r.takeSpare(rec.size))
	if err != nil {
		return err
	}
	r.push(root, data)
	for len(r.frames) > 0 {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if err := r.step(rec.kind); err != nil {
			return err
		}
	}
	return nil
}

// step makes one child of the object on top.
func (r *resolver) step(k kind) error {
	base, err := r.topData()
	if err != nil {
		return err
	}
	top := &r.frames[len(r.frames)-1]
	parent, child := top.object, top.next
	rec := r.records.at(child)
	rec.depth = r.records.at(parent).depth + 1
	isLast := rec.sibling == none
	if top.next = rec.sibling; isLast {
		r.pop()
	}
	data, err := r.makeChild(k, base, child)
	if err != nil {
		return fmt.Errorf("object at %d: %w", rec.offset, err)
	}
	if isLast {
		r.recycle(base)
	}
	if len(r.byBase) > 0 {
		r.adopt(child)
	}
	if rec.child == none {
		r.recycle(data)
		return nil
	}
	r.push(child, data)
	return nil
}

// makeChild applies the delta child to base, and records the id of the result.
func (r *resolver) makeChild(k kind, base []byte, child int32) ([]byte, error) {
	rec := r.records.at(child)
	if err := r.limits.checkChain(rec.depth); err != nil {
		return nil, err
	}
	if err := r.limits.checkParsed(k, rec.size); err != nil {
		return nil, err
	}
	data, err := r.apply(base, child)
	if err != nil {
		return nil, err
	}
	r.hash.begin(k, int64(len(data)))
	for part := range slices.Chunk(data, contextBytes) {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		_, _ = r.hash.Write(part) // hashes never fail
	}
	if rec.id, err = r.hash.end(); err != nil {
		return nil, err
	}
	rec.known = true
	return data, nil
}

// contextBytes is how many bytes of an object are processed between two checks of the context.
const contextBytes = 4 << 20

// push puts an object and its data on top of the stack.
func (r *resolver) push(object int32, data []byte) {
	r.frames = append(r.frames, frame{object: object, next: r.records.at(object).child})
	r.keep(len(r.frames)-1, data)
}

// keep stores the data of a frame. While all frames hold more than [retained] bytes, it drops the
// data of the lowest ones.
func (r *resolver) keep(at int, data []byte) {
	r.frames[at].data = data
	r.retained += int64(cap(data))
	for ; r.held < at && r.retained > retained; r.held++ {
		r.retained -= int64(cap(r.frames[r.held].data))
		r.frames[r.held].data = nil
	}
}

// pop removes the frame on top, which has data.
func (r *resolver) pop() {
	top := len(r.frames) - 1
	r.retained -= int64(cap(r.frames[top].data))
	r.frames[top].data = nil
	r.frames = r.frames[:top]
	r.held = min(r.held, top)
}

// recycle keeps the buffer of an object that is no longer needed, for takeSpare.
func (r *resolver) recycle(data []byte) {
	if cap(data) > cap(r.spare) {
		r.spare = data[:0]
	}
}

// takeSpare returns an empty buffer with room for an object of size bytes. The buffer is not much
// larger than that, because the object may stay on the stack.
func (r *resolver) takeSpare(size int64) []byte {
	into := r.spare
	if int64(cap(into)) > 2*size+spareSlack {
		into = nil
	} else {
		r.spare = nil
	}
	return slices.Grow(into[:0], int(size)+1) // one more, so that read sees the end
}

const spareSlack = 4 << 10

// topData returns the data of the object on top, and makes it again if it was dropped.
func (r *resolver) topData() ([]byte, error) {
	top := len(r.frames) - 1
	if top < r.held {
		if err := r.rebuild(); err != nil {
			return nil, err
		}
	}
	return r.frames[top].data, nil
}

// rebuild makes the object on top again, from the root of its chain. It also keeps the data of the
// other frames on the way.
func (r *resolver) rebuild() error {
	at := r.frames[len(r.frames)-1].object
	r.path = r.path[:0]
	for r.records.at(at).base != none {
		r.path = append(r.path, at)
		at = r.records.at(at).base
	}
	data, err := r.read(at, r.takeSpare(r.records.at(at).size))
	if err != nil {
		return err
	}
	r.held = 0
	for next := 0; ; {
		isKept := r.frames[next].object == at
		if isKept {
			r.keep(next, data)
			next++
		}
		if len(r.path) == 0 {
			return nil
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		at, r.path = r.path[len(r.path)-1], r.path[:len(r.path)-1]
		base := data
		if data, err = r.apply(base, at); err != nil {
			return err
		}
		if !isKept {
			r.recycle(base)
		}
	}
}

// apply applies a delta to its base. It counts the work before it does it, so that objects that are
// made again cannot exceed the bound either.
func (r *resolver) apply(base []byte, delta int32) ([]byte, error) {
	rec := r.records.at(delta)
	limit := r.limits.work(r.end)
	if rec.size > limit-r.made {
		return nil, &LimitError{What: workUnit, Need: limit + 1, Limit: limit}
	}
	r.made += rec.size
	var err error
	if r.delta, err = r.read(delta, r.delta[:0]); err != nil {
		return nil, err
	}
	return applyDelta(r.takeSpare(rec.size), base, r.delta)
}

// read inflates an object's bytes, as they are in the pack, and appends them to into. The scan of
// the pack has verified the size in the object's head, and memory for it is reserved.
func (r *resolver) read(object int32, into []byte) ([]byte, error) {
	rec := r.records.at(object)
	section := io.NewSectionReader(r.file, rec.offset, r.records.endOf(object, r.end)-rec.offset)
	r.buffer.Reset(ContextReader{r.ctx, section})
	h, err := readHead(r.buffer, sumSize)
	if err != nil {
		return nil, err
	}
	body, err := r.inflate.open(r.buffer)
	if err != nil {
		return nil, err
	}
	into = slices.Grow(into, int(h.size)+1) // one more, so that the loop sees the end
	for {
		n, err := body.Read(into[len(into):min(cap(into), len(into)+contextBytes)])
		into = into[:len(into)+n]
		if err == io.EOF {
			return into, nil
		}
		if err != nil {
			return nil, err
		}
		if len(into) == cap(into) || r.ctx.Err() != nil {
			return nil, r.unexpected()
		}
	}
}

// unexpected returns why an object was not read to its end: the context ended, or the file changed
// since it was scanned.
func (r *resolver) unexpected() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return fmt.Errorf("%w: an object is longer than its head says", ErrMalformed)
}
