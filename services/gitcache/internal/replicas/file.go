// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// stallTimeout is how long a replica may send nothing in the middle of a file: it is frozen then,
// or cut off.
const stallTimeout = 10 * time.Second

var errStalled = errors.New("the other replica has stopped sending")

// Read implements [mirror.Replicas].
func (r *Replicas) Read(ctx context.Context, replica string, def mirror.Definition, generation, name string) (io.ReadCloser, error) {
	c, err := r.client(replica)
	if err != nil {
		return nil, err
	}
	return open(ctx, stallTimeout, mirror.ErrNoMirror, func(ctx context.Context) (*connect.ServerStreamForClient[gitcachev1.ReadMirrorFileResponse], error) {
		return c.ReadMirrorFile(ctx, &gitcachev1.ReadMirrorFileRequest{
			Repository: def.Name, Uid: def.UID, Generation: generation, Name: name,
		})
	})
}

// chunked is a message with a part of a file.
type chunked[T any] interface {
	*T
	GetChunk() []byte
}

// open reads the stream that call opens. patience is for its first message; gone is the meaning of
// an answer NOT_FOUND.
func open[T any, M chunked[T]](
	ctx context.Context, patience time.Duration, gone error, call func(context.Context) (*connect.ServerStreamForClient[T], error),
) (io.ReadCloser, error) {
	reading, cancel := context.WithCancelCause(ctx)
	f := &file[T, M]{
		stalled: time.AfterFunc(patience, func() { cancel(errStalled) }), cancel: cancel, gone: gone,
		cause: func() error { return context.Cause(reading) },
	}
	var err error
	if f.stream, err = call(reading); err != nil {
		f.stalled.Stop()
		cancel(nil)
		return nil, f.explain(err)
	}
	return f, nil
}

// file reads the chunks of a stream as one. It ends with an error when the other replica sends
// nothing for a while: a replica that is frozen keeps its connections open.
type file[T any, M chunked[T]] struct {
	stream  *connect.ServerStreamForClient[T]
	chunk   []byte      // the rest of the message that was received last
	stalled *time.Timer // cancels the call; every message resets it
	cancel  context.CancelCauseFunc
	cause   func() error // why the call was cancelled
	gone    error
}

// Read implements io.Reader.
func (f *file[T, M]) Read(p []byte) (int, error) {
	for len(f.chunk) == 0 {
		if !f.stream.Receive() {
			if err := f.stream.Err(); err != nil {
				return 0, f.explain(err)
			}
			return 0, io.EOF
		}
		f.stalled.Reset(stallTimeout)
		f.chunk = M(f.stream.Msg()).GetChunk()
	}
	n := copy(p, f.chunk)
	f.chunk = f.chunk[n:]
	return n, nil
}

// explain returns the error that a failed call means: a stall, a file that is gone, or another one.
func (f *file[T, M]) explain(err error) error {
	if errors.Is(f.cause(), errStalled) {
		return fmt.Errorf("read from replica: %w: %w", errStalled, err)
	}
	if connect.CodeOf(err) == connect.CodeNotFound {
		return errors.Join(f.gone, err)
	}
	return fmt.Errorf("read from replica: %w", err)
}

// Close implements io.Closer.
func (f *file[T, M]) Close() error {
	f.stalled.Stop()
	f.cancel(nil)
	_ = f.stream.Close() // reports the cancellation
	return nil
}
