// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// ObjectCost is how much memory [Receive] takes for each object of a pack, the collector's
	// share included.
	ObjectCost = 160
	// WorkingSet is how much it takes besides, unless a single object needs more.
	WorkingSet = 64 << 20
	// retained bounds the objects that are kept while their deltas are resolved; the collector's share
	// is as much.
	retained = WorkingSet / 2

	streamBuffer = 64 << 10
)

// Memory admits what needs much memory. Its methods may be called concurrently.
type Memory interface {
	// Acquire waits, fairly, until that many bytes may be used. An error is the context's, or means
	// that so many never may. With an error release is nil.
	Acquire(ctx context.Context, bytes int64) (release func(), err error)
	// TryAcquire is Acquire without waiting; false: not now.
	TryAcquire(bytes int64) (release func(), ok bool)
}

// Receive writes the pack that r holds into dir, with its index. Both are checked, complete and
// durable, but their names are durable only once the folder has been synced. The context ends
// reading and waiting. While memory is short, Receive writes the pack to disk as it arrives and
// indexes it later, so that the upstream does not have to wait. Errors match ErrEmpty if r is
// empty, and ErrMalformed if the bytes are wrong. Other errors are a *LimitError, and errors of r,
// memory and the disk.
func Receive(ctx context.Context, dir string, r io.Reader, memory Memory) (Received, error) {
	return receive(ctx, dir, r, memory, defaultLimits)
}

func receive(ctx context.Context, dir string, r io.Reader, memory Memory, l limits) (Received, error) {
	f, err := os.CreateTemp(dir, TemporaryPrefix)
	if err != nil {
		return Received{}, fmt.Errorf("receive pack: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename succeeded
	defer func() { _ = f.Close() }()           // closed already where it succeeded
	in := &receiving{ctx: ctx, dir: dir, file: f, memory: memory, limits: l}
	defer func() {
		if in.release != nil {
			in.release()
		}
	}()
	got, err := in.run(r)
	if err != nil {
		return Received{}, fmt.Errorf("receive pack: %w", endMalformed(err))
	}
	return got, nil
}

// receiving is one pack on its way to the disk.
type receiving struct {
	ctx     context.Context //nolint:containedctx // lives as long as one call
	dir     string
	file    *os.File
	memory  Memory
	limits  limits
	release func() // gives back the memory that is held; nil: none is

	objects int
	records records
	end     int64 // where the last object ends
	sum     []byte
}

// run takes a pack from its first byte to its name. The limits are checked between scanning and
// resolving, when all sizes are known and nothing was expanded.
func (in *receiving) run(r io.Reader) (Received, error) {
	if err := in.scan(r); err != nil {
		return Received{}, err
	}
	if err := in.checksum(); err != nil {
		return Received{}, err
	}
	if err := in.limits.checkMade(&in.records, in.end); err != nil { // before more memory is reserved
		return Received{}, err
	}
	if err := in.grow(in.records.deepest()); err != nil {
		return Received{}, err
	}
	resolver := &resolver{ctx: in.ctx, file: in.file, records: &in.records, end: in.end, limits: in.limits}
	if err := resolver.run(); err != nil {
		return Received{}, err
	}
	got, err := in.commit()
	got.Made = resolver.made
	return got, err
}

// cost is the memory for all objects.
func (in *receiving) cost() int64 { return int64(in.objects)*ObjectCost + WorkingSet }

// scan writes the pack to disk and finds its objects, both at once where memory is free.
func (in *receiving) scan(r io.Reader) error {
	arriving := newStream(io.TeeReader(ContextReader{in.ctx, r}, in.file), 0)
	var err error
	if in.objects, err = readPreamble(arriving.Reader); err != nil {
		return err
	}
	if release, ok := in.memory.TryAcquire(in.cost()); ok {
		in.release = release
		return in.find(arriving)
	}
	if _, err := io.Copy(io.Discard, arriving); err != nil {
		return err
	}
	if in.release, err = in.memory.Acquire(in.ctx, in.cost()); err != nil {
		return err
	}
	if _, err := in.file.Seek(headerSize, io.SeekStart); err != nil {
		return err
	}
	return in.find(newStream(ContextReader{in.ctx, in.file}, headerSize))
}

// find goes through a pack's objects. The stream is behind the preamble, and has to end behind the
// checksum.
func (in *receiving) find(pack stream) error {
	s := newScanner(pack, &in.records, in.limits)
	for range in.objects {
		at := pack.offset()
		if err := s.next(); err != nil {
			return fmt.Errorf("object at %d: %w", at, err)
		}
	}
	in.end, in.sum = pack.offset(), make([]byte, sumSize)
	if _, err := io.ReadFull(pack, in.sum); err != nil {
		return err
	}
	if _, err := pack.Peek(1); err == nil {
		return fmt.Errorf("%w: goes on behind its end", ErrMalformed)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// checksum reads what the disk holds now, and computes the checksum of each object's bytes and of
// all.
func (in *receiving) checksum() error {
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(ContextReader{in.ctx, in.file}, streamBuffer)
	hash := sha1.New()
	if _, err := sumOf(r, headerSize, 0, hash); err != nil {
		return err
	}
	for i := range in.records.n {
		rec := in.records.at(i)
		crc, err := sumOf(r, in.records.endOf(i, in.end)-rec.offset, 0, hash)
		if err != nil {
			return err
		}
		rec.crc = crc
	}
	if !bytes.Equal(hash.Sum(nil), in.sum) {
		return fmt.Errorf("%w: does not match its checksum", ErrMalformed)
	}
	return nil
}

// grow exchanges the admitted memory for more, where a single object needs more than the working
// set. It first gives back the held memory: two that waited for one another's would wait for ever.
func (in *receiving) grow(single int64) error {
	if single <= retained {
		return nil
	}
	in.release()
	var err error
	in.release, err = in.memory.Acquire(in.ctx, in.cost()+single)
	return err
}

// commit makes the pack and its index durable, and gives them their names.
func (in *receiving) commit() (Received, error) {
	if err := errors.Join(in.file.Sync(), in.file.Close()); err != nil {
		return Received{}, err
	}
	return publish(in.file.Name(), in.dir, in.records.entries(), in.sum, in.end+sumSize)
}
