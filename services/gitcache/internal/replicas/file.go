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

// stallTimeout is how long a replica may send nothing in the middle of a file: it is frozen then, or cut off.
const stallTimeout = 10 * time.Second

var errStalled = errors.New("the other replica has stopped sending")

// Read implements [mirror.Replicas].
func (r *Replicas) Read(ctx context.Context, replica string, def mirror.Definition, generation, name string) (io.ReadCloser, error) {
	c, err := r.client(replica)
	if err != nil {
		return nil, err
	}
	reading, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	stream, err := c.ReadMirrorFile(reading, &gitcachev1.ReadMirrorFileRequest{
		Repository: def.Name, Uid: def.UID, Generation: generation, Name: name,
	})
	f := &file{stream: stream, stalled: stalled, cancel: cancel, cause: func() error { return context.Cause(reading) }}
	if err != nil {
		stalled.Stop()
		cancel(nil)
		return nil, f.explain(err)
	}
	return f, nil
}

// file reads the chunks of a stream as one.
type file struct {
	stream  *connect.ServerStreamForClient[gitcachev1.ReadMirrorFileResponse]
	chunk   []byte // what is left of the last one
	stalled *time.Timer
	cancel  context.CancelCauseFunc
	cause   func() error
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	for len(f.chunk) == 0 {
		if !f.stream.Receive() {
			if err := f.stream.Err(); err != nil {
				return 0, f.explain(err)
			}
			return 0, io.EOF
		}
		f.stalled.Reset(stallTimeout)
		f.chunk = f.stream.Msg().GetChunk()
	}
	n := copy(p, f.chunk)
	f.chunk = f.chunk[n:]
	return n, nil
}

// explain tells a stall, and a file that is gone, from other failures.
func (f *file) explain(err error) error {
	if errors.Is(f.cause(), errStalled) {
		return fmt.Errorf("read mirror file: %w: %w", errStalled, err)
	}
	if connect.CodeOf(err) == connect.CodeNotFound {
		return errors.Join(mirror.ErrNoMirror, err)
	}
	return fmt.Errorf("read mirror file: %w", err)
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.stalled.Stop()
	f.cancel(nil)
	_ = f.stream.Close() // reports the cancellation
	return nil
}
