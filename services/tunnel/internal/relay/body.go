// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"sync"
)

// maxKept is how much of a request's body is kept until the answer comes, in bytes. kubectl sends
// less, except for copies of files.
const maxKept = 64 << 10

// errPassedOn is the error of an attempt whose body another attempt has taken over.
var errPassedOn = errors.New("request body belongs to another attempt")

// body is a request's body that several attempts can read from its beginning, one after the other.
type body struct {
	source io.ReadCloser

	reading sync.Mutex // one read of the source at a time; it is held while the caller has nothing to read

	mu      sync.Mutex
	kept    []byte
	err     error // how the source ended
	lost    bool  // some of what was read is gone
	settled bool  // there will be no other attempt
	waiting bool  // the source is being read
	touched bool  // the source was read
	current *attempt
}

// keep returns the body of a request; nil when it has none.
func keep(req *http.Request) *body {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	return &body{source: req.Body}
}

// attempt returns the request for the next attempt, and false when its body cannot be sent from its
// beginning any more. An earlier attempt reads nothing from now on.
func (b *body) attempt(req *http.Request) (*http.Request, bool) {
	if b == nil {
		return req, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return nil, false
	}
	b.current = &attempt{body: b}
	next := *req
	next.Body = b.current
	if source, ok := b.source.(io.WriterTo); ok {
		next.Body = attemptWriterTo{b.current, source}
	}
	return &next, true
}

// settle ends the keeping: no other attempt follows.
func (b *body) settle() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = true
}

// attempt is the body as one attempt reads it.
type attempt struct {
	body   *body
	pos    int  // how much of the kept bytes it has read
	closed bool // it reads no more; the body's lock protects it
}

// Read implements io.Reader.
func (a *attempt) Read(p []byte) (int, error) {
	if n, err, done := a.readKept(p); done {
		return n, err
	}
	a.body.reading.Lock()
	defer a.body.reading.Unlock()
	if n, err, done := a.begin(p); done { // an earlier attempt may have read meanwhile
		return n, err
	}
	n, err := a.body.source.Read(p)
	return a.end(p[:n], err)
}

func (a *attempt) readKept(p []byte) (n int, err error, done bool) {
	a.body.mu.Lock()
	defer a.body.mu.Unlock()
	return a.readKeptLocked(p)
}

// begin is readKept, and else notes that the source is about to be read.
func (a *attempt) begin(p []byte) (n int, err error, done bool) {
	a.body.mu.Lock()
	defer a.body.mu.Unlock()
	n, err, done = a.readKeptLocked(p)
	a.body.waiting = !done
	a.body.touched = a.body.touched || !done
	return n, err, done
}

func (a *attempt) readKeptLocked(p []byte) (n int, err error, done bool) {
	b := a.body
	switch {
	case b.current != a || a.closed:
		return 0, errPassedOn, true
	case a.pos < len(b.kept):
		n = copy(p, b.kept[a.pos:])
		if a.pos += n; a.pos == len(b.kept) && b.settled {
			a.pos, b.kept = 0, nil
		}
		return n, nil, true
	case b.err != nil:
		return 0, b.err, true
	}
	return 0, nil, false
}

// end keeps the bytes that were read. Bytes that a finished attempt reads belong to the next one.
func (a *attempt) end(read []byte, err error) (int, error) {
	b := a.body
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = false
	if err != nil {
		b.err = err
	}
	if b.current != a {
		b.kept = append(b.kept, read...)
		return 0, errPassedOn
	}
	switch {
	case b.lost:
	case b.settled || len(b.kept)+len(read) > maxKept:
		a.pos, b.kept, b.lost = 0, nil, true
	default:
		b.kept = append(b.kept, read...)
		a.pos = len(b.kept)
	}
	return len(read), err
}

// attemptWriterTo is an attempt whose source writes itself. It does as soon as no other attempt can
// follow.
type attemptWriterTo struct {
	*attempt

	source io.WriterTo
}

// WriteTo implements io.WriterTo.
func (a attemptWriterTo) WriteTo(w io.Writer) (written int64, err error) {
	for buffer := make([]byte, maxKept/2); !a.isLast(); {
		n, err := a.Read(buffer)
		m, writeErr := w.Write(buffer[:n])
		written += int64(m)
		switch {
		case writeErr != nil:
			return written, writeErr
		case errors.Is(err, io.EOF):
			return written, nil
		case err != nil:
			return written, err
		}
	}
	a.body.reading.Lock()
	defer a.body.reading.Unlock()
	if _, err, done := a.begin(nil); errors.Is(err, io.EOF) {
		return written, nil
	} else if done {
		return written, err
	}
	n, err := a.source.WriteTo(w)
	_, _ = a.end(nil, cmp.Or(err, io.EOF))
	return written + n, err
}

// isLast reports whether this attempt has read what was kept, and nothing is kept any more.
func (a *attempt) isLast() bool {
	a.body.mu.Lock()
	defer a.body.mu.Unlock()
	return a.body.lost && a.pos >= len(a.body.kept)
}

// Close implements io.Closer. The source stays open as long as another attempt may want it; the
// server that the request came from closes it in the end. A read that waits for the caller is
// another matter: the goroutine that closes the body waits for it. This attempt reads no more, even
// when it closes the body before it has begun.
func (a *attempt) Close() error {
	b := a.body
	b.mu.Lock()
	a.closed = true
	over := b.current != a || !b.touched || !b.settled && !b.waiting
	if !over {
		b.lost = true
	}
	b.mu.Unlock()
	if over {
		return nil
	}
	return b.source.Close()
}
