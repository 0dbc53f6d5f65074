// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Admitted is a pack for whose indexing by somebody else memory was admitted. Close gives the
// memory back.
type Admitted struct {
	io.Reader
	release func()
	spooled *os.File // nil: it comes as it is read
}

// Admit waits for the memory that somebody else, such as the git executable, takes to index the
// pack that r holds. While memory is short the pack is written to a file in dir as it comes, so
// that no upstream is kept waiting. What is no pack passes too: indexing it fails.
func Admit(ctx context.Context, dir string, r io.Reader, memory Memory) (*Admitted, error) {
	in := bufio.NewReaderSize(contextReader{ctx, r}, streamBuffer)
	head, err := in.Peek(headerSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("admit pack: %w", err)
	}
	cost := int64(WorkingSet)
	if len(head) == headerSize {
		cost += ObjectCost * int64(binary.BigEndian.Uint32(head[8:]))
	}
	if release, ok := memory.TryAcquire(cost); ok {
		return &Admitted{Reader: in, release: release}, nil
	}
	a, err := spool(dir, in)
	if err != nil {
		return nil, fmt.Errorf("admit pack: %w", err)
	}
	if a.release, err = memory.Acquire(ctx, cost); err != nil {
		a.release = func() {}
		return nil, errors.Join(fmt.Errorf("admit pack: %w", err), a.Close())
	}
	return a, nil
}

func spool(dir string, in io.Reader) (*Admitted, error) {
	f, err := os.CreateTemp(dir, TemporaryPrefix)
	if err != nil {
		return nil, err
	}
	a := &Admitted{Reader: f, release: func() {}, spooled: f}
	if _, err := io.Copy(f, in); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close gives memory and disk back.
func (a *Admitted) Close() error {
	a.release()
	if a.spooled == nil {
		return nil
	}
	return errors.Join(a.spooled.Close(), os.Remove(a.spooled.Name()))
}
