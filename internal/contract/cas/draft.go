// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/wake"
)

// HoldBack is how many of the most recently written bytes a [Draft] withholds from its readers
// until the whole blob is verified, so a reader that reaches EOF has read only verified bytes. A
// blob of at most this size cannot be read while it grows, so a reader that waits for its first
// byte learns in time if it fails.
const HoldBack = 64 << 10

// Draft is a blob on its way into a [Store], which can be read while it grows. [Store.Begin] makes
// it, and its caller must call Fill or Fail once. A draft that is never filled costs nothing but
// the wait of its readers. All methods may be called concurrently.
type Draft struct {
	fill func(context.Context, io.Reader, Growth) (Info, error)

	mu      sync.Mutex
	changed wake.Broadcast // notified when one of the following changes
	source  Source         // of the bytes; nil before there are any
	size    int64          // bytes that source has
	users   int            // of source: readers, and Fill while it runs
	ended   bool
	info    Info  // of the blob, once the draft succeeded
	err     error // once the draft failed
}

// Source is where a draft's bytes can be read. It is closed after its last reader, which may be
// long after the blob was stored or failed.
type Source interface {
	io.ReaderAt
	io.Closer
}

// Growth is how an implementation of [Store] reports to a draft's readers which bytes they can
// read.
type Growth struct {
	draft *Draft
}

// NewDraft is for implementations of [Store]. fill does the work of [Draft.Fill]: it begins the
// growth and adds to it as it writes.
func NewDraft(fill func(context.Context, io.Reader, Growth) (Info, error)) *Draft {
	return &Draft{fill: fill}
}

// Begin sets where the bytes will be, and transfers ownership of the source. It must be called
// once, before Add.
func (g Growth) Begin(source Source) {
	g.draft.change(func(d *Draft) { d.source = source })
}

// Add reports that the source has n more bytes, which will not change.
func (g Growth) Add(n int) {
	g.draft.change(func(d *Draft) { d.size += int64(n) })
}

func (d *Draft) change(how func(*Draft)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	how(d)
	d.changed.Notify()
}

// Fill stores the zstd bytes of r, with the promises and the errors of [Store.Put]. Unlike Put it
// reads r regardless of what the store holds, and its blob replaces an earlier one.
func (d *Draft) Fill(ctx context.Context, r io.Reader) (Info, error) {
	d.mu.Lock()
	d.users++
	d.mu.Unlock()
	defer d.leave()
	info, err := d.fill(ctx, r, Growth{draft: d})
	d.end(info, err)
	return info, err
}

// Fail abandons a draft whose Fill was not called. Its readers get err.
func (d *Draft) Fail(err error) {
	d.end(Info{}, err)
}

func (d *Draft) end(info Info, err error) {
	d.change(func(d *Draft) { d.ended, d.info, d.err = true, info, err })
}

// leave closes the source after its last user.
func (d *Draft) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users--
	if d.users == 0 && d.ended && d.source != nil {
		_ = d.source.Close() // its bytes are synced, or not wanted
		d.source = nil
	}
}

// Ended reports whether the blob has been stored, or has failed.
func (d *Draft) Ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// Ready blocks until there is something to read or the draft has ended. stored reports that it
// succeeded: the blob is now in the store, and is better opened there. The error is Fill's, or the
// context's.
func (d *Draft) Ready(ctx context.Context) (stored bool, err error) {
	now, err := d.await(ctx, 0)
	return now.ended && err == nil, err
}

// Follow returns a reader of the blob's bytes from the first one on, which waits for bytes that
// have not been written yet. The last bytes come when Fill has succeeded, and are verified as they
// are read. When Fill fails, the reader returns its error. The reader is for one goroutine, and the
// caller closes it. Following a draft that has ended fails: see Ready.
func (d *Draft) Follow(ctx context.Context) io.ReadCloser {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users++
	return &follower{ctx: ctx, draft: d, hasher: digest.NewHasher()}
}

// progress is how much of a draft can be read, and whether it has ended.
type progress struct {
	source   Source
	readable int64 // bytes
	ended    bool
	info     Info
}

// await blocks until more than offset bytes can be read, or the draft has ended.
func (d *Draft) await(ctx context.Context, offset int64) (progress, error) {
	for {
		now, changed, err := d.progress()
		if err != nil || now.ended || now.readable > offset {
			return now, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return progress{}, context.Cause(ctx)
		}
	}
}

func (d *Draft) progress() (progress, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := progress{source: d.source, readable: d.size - HoldBack, ended: d.ended, info: d.info}
	if d.ended {
		now.readable = d.size
	}
	return now, d.changed.Next(), d.err
}

// follower reads a draft.
type follower struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no other way to be cancelled
	draft  *Draft
	offset int64
	hasher *digest.Hasher // of the bytes read so far
	closed sync.Once
}

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	now, err := f.draft.await(f.ctx, f.offset)
	switch {
	case err != nil:
		return 0, err
	case now.source == nil:
		return 0, fmt.Errorf("follow draft: %w: it had ended before", ErrNotFound)
	case f.offset == now.readable:
		return 0, io.EOF
	}
	n, err := now.source.ReadAt(p[:min(int64(len(p)), now.readable-f.offset)], f.offset)
	if n == 0 && err != nil {
		return 0, fmt.Errorf("follow draft: %w", err)
	}
	f.offset += int64(n)
	_, _ = f.hasher.Write(p[:n]) // a Hasher takes everything and never fails
	if now.ended && f.offset == now.readable && f.hasher.Digest() != now.info.StoredDigest {
		return 0, errors.New("follow draft: bytes read back are not those that were written")
	}
	return n, nil
}

// Close implements io.Closer.
func (f *follower) Close() error {
	f.closed.Do(f.draft.leave)
	return nil
}
