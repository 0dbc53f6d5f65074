// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// Want is an object, and the file that needs it.
type Want struct {
	Pointer
	Path string // from the repository's root
}

// Request asks an LFS server for objects.
type Request struct {
	mirror.OwnerTask
	// URL is what the commit's .lfsconfig names as the server. It counts only at the repository's
	// own host. Empty: the server is where the repository's URL leads to.
	URL   string
	Wants []Want
}

// Server reaches the LFS servers of repositories.
type Server interface {
	// Fetch asks for objects, and calls take once for each that the server has something to say
	// about: with its bytes, or with the reason why there are none. take may be called
	// concurrently, and keeps no body. Errors of Fetch concern all objects that take was not called
	// for. They are *MissingError (only to take), *mirror.UpstreamError, *mirror.QuietError, the
	// guard's, or the context's.
	Fetch(ctx context.Context, r Request, take func(w Want, body io.Reader, err error)) error
}

// Holders reaches the objects of other replicas. Its methods may be called concurrently.
type Holders interface {
	// List returns what a replica holds of a repository. Where its fingerprint is the one known, it
	// returns that and no objects.
	List(ctx context.Context, replica string, def mirror.Definition, known string) (fingerprint string, held []Pointer, err error)
	// Read opens an object over there; the owner of the repository downloads it first where it has
	// to. ErrAbsent, of Read or of the reader: it does not have it. The URL is that of a [Request].
	Read(ctx context.Context, replica string, def mirror.Definition, url string, w Want) (io.ReadCloser, error)
}

// Params are what [Objects] work with. All are required but Timeout.
type Params struct {
	Store   *Store
	Server  Server
	Holders Holders
	// Find returns the repository of a UID.
	Find   func(uid string) (*mirroring.Repository, error)
	Logger *slog.Logger
	// Timeout bounds one download of several objects, however many callers wait for it. Zero: 30
	// min.
	Timeout time.Duration
}

const (
	defaultTimeout = 30 * time.Minute
	// failureMemory is how long the upstream is not asked again for what it did not give: a
	// thousand callers cost as many requests as one.
	failureMemory = 15 * time.Second
	manyFailures  = 10_000
)

var errUnsaid = errors.New("the upstream said nothing of the object")

// Objects get objects: from disk, from the upstream where this replica owns the repository, else
// from other replicas. It may be used concurrently.
type Objects struct {
	params Params

	mu      sync.Mutex
	flights map[objectKey]*flight
	failed  map[objectKey]failure
}

// objectKey names an object of one repository.
type objectKey struct {
	uid string
	Pointer
}

// flight is an object on its way, which several callers wait for.
type flight struct {
	done chan struct{} // closed when err is set
	err  error
}

type failure struct {
	err   error
	until time.Time
}

// NewObjects returns Objects.
func NewObjects(p Params) *Objects {
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	return &Objects{params: p, flights: map[objectKey]*flight{}, failed: map[objectKey]failure{}}
}

// Open opens an object that is held here. ErrAbsent: [Objects.Obtain] has to get it first. Errors
// are those of [Store.Open].
func (o *Objects) Open(uid string, p Pointer) (io.ReadCloser, error) {
	return o.params.Store.Open(uid, p)
}

// Obtain makes this replica hold all the objects. A download goes on when its first caller gives
// up, and several callers share one. The error is that of the first object that could not be had, a
// *MissingError or a *FileError.
func (o *Objects) Obtain(ctx context.Context, uid, url string, wants []Want) error {
	flights, err := o.board(ctx, uid, url, wants)
	if err != nil {
		return err
	}
	for _, b := range flights {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.done:
		}
		if b.err != nil {
			return b.blame(b.err)
		}
	}
	return nil
}

// boarded is a want with the flight that brings it.
type boarded struct {
	Want
	*flight
}

// board returns every want that is not held yet with its flight, and begins those that there are
// none of.
func (o *Objects) board(ctx context.Context, uid, url string, wants []Want) ([]boarded, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var flights []boarded
	var fresh []Want
	for _, w := range wants {
		key := objectKey{uid, w.Pointer}
		if f, ok := o.flights[key]; ok {
			flights = append(flights, boarded{w, f})
			continue
		}
		if o.params.Store.Has(uid, w.Pointer) {
			continue
		}
		if known, ok := o.failed[key]; ok && time.Now().Before(known.until) {
			o.abandonLocked(uid, fresh)
			return nil, w.blame(known.err)
		}
		f := &flight{done: make(chan struct{})}
		o.flights[key] = f
		flights = append(flights, boarded{w, f})
		fresh = append(fresh, w)
	}
	if len(fresh) > 0 {
		go o.fly(context.WithoutCancel(ctx), uid, url, fresh) // ends with its own time limit
	}
	return flights, nil
}

// abandonLocked takes back flights that have not begun; nobody else has seen them.
func (o *Objects) abandonLocked(uid string, wants []Want) {
	for _, w := range wants {
		delete(o.flights, objectKey{uid, w.Pointer})
	}
}

func (o *Objects) fly(ctx context.Context, uid, url string, wants []Want) {
	ctx, cancel := context.WithTimeout(ctx, o.params.Timeout)
	defer cancel()
	e := &errand{objects: o, uid: uid, url: url, reasons: map[Pointer]error{}}
	err := e.run(ctx, wants)
	for _, w := range wants {
		if o.params.Store.Has(uid, w.Pointer) {
			o.land(uid, w, nil)
			continue
		}
		o.land(uid, w, e.reason(w, err))
	}
}

// land ends the flight of one object, if it has not landed before.
func (o *Objects) land(uid string, w Want, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := objectKey{uid, w.Pointer}
	f, ok := o.flights[key]
	if !ok {
		return
	}
	delete(o.flights, key)
	delete(o.failed, key)
	if lasts(err) {
		o.forgetLocked()
		o.failed[key] = failure{err, time.Now().Add(failureMemory)}
	}
	f.err = err
	close(f.done)
}

// lasts tells a failure of the upstream, which the next caller would meet again, from one of ours.
func lasts(err error) bool {
	_, missing := errors.AsType[*MissingError](err)
	_, failed := errors.AsType[*mirror.UpstreamError](err)
	return missing || failed
}

func (o *Objects) forgetLocked() {
	if len(o.failed) < manyFailures {
		return
	}
	for key, f := range o.failed {
		if time.Now().After(f.until) {
			delete(o.failed, key)
		}
	}
}

// Provide opens an object for another replica. Where this one owns the repository it gets the
// object first; elsewhere what is not held is ErrAbsent.
func (o *Objects) Provide(ctx context.Context, uid, url string, w Want) (io.ReadCloser, error) {
	body, err := o.Open(uid, w.Pointer)
	if !errors.Is(err, ErrAbsent) {
		return body, err
	}
	r, unknown := o.params.Find(uid)
	if unknown != nil || r.Epoch() == 0 {
		return nil, err
	}
	if err := o.Obtain(ctx, uid, url, []Want{w}); err != nil {
		return nil, err
	}
	return o.Open(uid, w.Pointer)
}

// Held lists what is held of a repository, with its fingerprint.
func (o *Objects) Held(uid string) (string, []Pointer, error) {
	held, err := o.params.Store.List(uid)
	return Fingerprint(held), held, err
}
