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

// Admitted is a pack for whose indexing by another program memory was admitted. Close gives the
// memory back.
type Admitted struct {
	io.Reader
	release func()   // nil: no memory is held
	spooled *os.File // nil: the pack comes as it is read
}

// Admit waits for the memory that another program, such as the git executable, takes to index the
// pack that r holds. While memory is short the pack is written to a file in dir as it comes, so
// that no upstream is kept waiting. Bytes that are not a pack pass, too: indexing them fails.
func Admit(ctx context.Context, dir string, r io.Reader, memory Memory) (*Admitted, error) {
	in := bufio.NewReaderSize(ContextReader{ctx, r}, streamBuffer)
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
	a := &Admitted{}
	if err = a.spool(dir, in); err == nil {
		a.release, err = memory.Acquire(ctx, cost)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("admit pack: %w", err), a.Close())
	}
	return a, nil
}

// spool writes the pack to a file, which is then read from its beginning.
func (a *Admitted) spool(dir string, in io.Reader) (err error) {
	if a.spooled, err = os.CreateTemp(dir, TemporaryPrefix); err != nil {
		return err
	}
	if _, err := io.Copy(a.spooled, in); err != nil {
		return err
	}
	a.Reader = a.spooled
	_, err = a.spooled.Seek(0, io.SeekStart)
	return err
}

// Close gives memory and disk back. It does not close the stream that the pack came from.
func (a *Admitted) Close() error {
	if a.release != nil {
		a.release()
	}
	if a.spooled == nil {
		return nil
	}
	return errors.Join(a.spooled.Close(), os.Remove(a.spooled.Name()))
}
