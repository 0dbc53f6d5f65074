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

	lru "github.com/hashicorp/golang-lru/v2"

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
	// URL is the server that the commit's .lfsconfig names. It counts only at the repository's own
	// host. Empty: the server is where the repository's URL leads to.
	URL   string
	Wants []Want
}

// Server reaches the LFS servers of repositories.
type Server interface {
	// Fetch asks for objects, and calls take once for each that the server answers about: with its
	// bytes, or with the reason why there are none. take may be called concurrently, and keeps no
	// body. Errors of Fetch concern all objects that take was not called for. They are *MissingError
	// (only to take), *mirror.UpstreamError, *mirror.QuietError, the guard's, or the context's.
	Fetch(ctx context.Context, r Request, take func(w Want, body io.Reader, err error)) error
}

// Holders reaches the objects of other replicas. Its methods may be called concurrently.
type Holders interface {
	// List returns what a replica holds of a repository. Where its fingerprint is the one known, it
	// returns that and no objects.
	List(ctx context.Context, replica string, def mirror.Definition, known string) (fingerprint string, held []Pointer, err error)
	// Read opens an object over there; the owner of the repository downloads it first where it has to.
	// ErrAbsent, of Read or of the reader: it does not have it. The URL is the URL of a [Request].
	Read(ctx context.Context, replica string, def mirror.Definition, url string, w Want) (io.ReadCloser, error)
}

// Params are the parts of [Objects]. All are required.
type Params struct {
	Store   *Store
	Server  Server
	Holders Holders
	// Find returns the repository of a UID.
	Find   func(uid string) (*mirroring.Repository, error)
	Logger *slog.Logger
}

const (
	// transferTimeout bounds one download of several objects, however many callers wait for it.
	transferTimeout = 30 * time.Minute
	// failureMemory is how long the upstream is not asked again for what it did not give: a
	// thousand callers cost as many requests as one.
	failureMemory = 15 * time.Second
	manyFailures  = 10_000 // that are remembered
)

var errUnsaid = errors.New("the upstream said nothing of the object")

// Objects get objects: from disk, from the upstream where this replica owns the repository, else
// from other replicas. It may be used concurrently.
type Objects struct {
	params Params

	failed *lru.Cache[objectKey, failure] // of the upstream

	mu        sync.Mutex
	transfers map[objectKey]*transfer // that have not ended
}

// objectKey names an object of one repository.
type objectKey struct {
	uid string
	Pointer
}

// transfer is an object on its way, which several callers wait for.
type transfer struct {
	done chan struct{} // closed when err is set
	err  error
}

type failure struct {
	err   error
	until time.Time
}

// NewObjects returns Objects.
func NewObjects(p Params) *Objects {
	failed, _ := lru.New[objectKey, failure](manyFailures) // fails only for a limit that is not positive
	return &Objects{params: p, transfers: map[objectKey]*transfer{}, failed: failed}
}

// Open opens an object that is held here. ErrAbsent: [Objects.Obtain] has to get it first. It
// returns the errors of [Store.Open].
func (o *Objects) Open(uid string, p Pointer) (io.ReadCloser, error) {
	return o.params.Store.Open(uid, p)
}

// Obtain makes this replica hold all the objects. A download continues when its first caller gives
// up, and several callers share one. The error is about the first object that could not be had, a
// *MissingError or a *FileError.
func (o *Objects) Obtain(ctx context.Context, uid, url string, wants []Want) error {
	awaited, err := o.join(ctx, uid, url, wants)
	if err != nil {
		return err
	}
	for _, a := range awaited {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.done:
		}
		if a.err != nil {
			return a.blame(a.err)
		}
	}
	return nil
}

// awaited is a want with the transfer that brings it.
type awaited struct {
	Want
	*transfer
}

// join returns every want that is not held yet with its transfer, and begins one download for all
// that no transfer brings.
func (o *Objects) join(ctx context.Context, uid, url string, wants []Want) ([]awaited, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []awaited
	var fresh []Want
	for _, w := range wants {
		key := objectKey{uid, w.Pointer}
		if t, ok := o.transfers[key]; ok {
			all = append(all, awaited{w, t})
			continue
		}
		if o.params.Store.Has(uid, w.Pointer) {
			continue
		}
		if known, ok := o.failed.Get(key); ok && time.Now().Before(known.until) {
			for _, w := range fresh { // these are not shared yet
				delete(o.transfers, objectKey{uid, w.Pointer})
			}
			return nil, w.blame(known.err)
		}
		t := &transfer{done: make(chan struct{})}
		o.transfers[key] = t
		all = append(all, awaited{w, t})
		fresh = append(fresh, w)
	}
	if len(fresh) > 0 {
		go o.download(context.WithoutCancel(ctx), uid, url, fresh) // ends with its own time limit
	}
	return all, nil
}

// download gets objects, and ends their transfers.
func (o *Objects) download(ctx context.Context, uid, url string, wants []Want) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	d := &download{
		params: o.params, uid: uid, url: url, reasons: map[Pointer]error{},
		arrived: func(w Want) { o.finish(uid, w, nil) },
	}
	err := d.run(ctx, wants)
	for _, w := range wants {
		if o.params.Store.Has(uid, w.Pointer) {
			o.finish(uid, w, nil)
			continue
		}
		o.finish(uid, w, d.failure(w, err))
	}
}

// finish ends the transfer of one object, if it has not ended before.
func (o *Objects) finish(uid string, w Want, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := objectKey{uid, w.Pointer}
	t, ok := o.transfers[key]
	if !ok {
		return
	}
	delete(o.transfers, key)
	o.failed.Remove(key)
	if isLasting(err) {
		o.failed.Add(key, failure{err, time.Now().Add(failureMemory)})
	}
	t.err = err
	close(t.done)
}

// isLasting reports whether a failure is the upstream's, which the next caller would meet again,
// and not one of ours.
func isLasting(err error) bool {
	_, missing := errors.AsType[*MissingError](err)
	_, failed := errors.AsType[*mirror.UpstreamError](err)
	return missing || failed
}

// Provide opens an object for another replica. Where this one owns the repository it gets the
// object first; elsewhere an absent object is ErrAbsent.
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

// Held lists the held objects of a repository, with its fingerprint.
func (o *Objects) Held(uid string) (string, []Pointer, error) {
	held, err := o.params.Store.List(uid)
	return Fingerprint(held), held, err
}
