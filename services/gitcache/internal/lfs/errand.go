// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// errand gets objects of one repository that nobody else is getting.
type errand struct {
	objects  *Objects
	uid, url string

	mu      sync.Mutex
	reasons map[Pointer]error // why the upstream does not give an object
}

// run asks the upstream, if this replica may, and other replicas for what that did not give.
func (e *errand) run(ctx context.Context, wants []Want) error {
	r, err := e.objects.params.Find(e.uid)
	if err != nil {
		return err
	}
	err = r.AsOwner(ctx, func(ctx context.Context, right mirror.OwnerTask) error {
		return e.objects.params.Server.Fetch(ctx, Request{OwnerTask: right, URL: e.url, Wants: wants}, e.take)
	})
	rest := e.absent(wants)
	if len(rest) < len(wants) {
		r.Announce()
	}
	if len(rest) > 0 {
		err = e.askReplicas(ctx, r, rest, err)
	}
	return err
}

// take stores what the upstream sends.
func (e *errand) take(w Want, body io.Reader, err error) {
	if err == nil {
		err = e.store(w, body)
	}
	if err == nil {
		e.objects.land(e.uid, w, nil)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reasons[w.Pointer] = err
}

// store trusts nobody: wrong content is the fault of its sender.
func (e *errand) store(w Want, body io.Reader) error {
	err := e.objects.params.Store.Put(e.uid, w.Pointer, body)
	if errors.Is(err, digest.ErrMismatch) {
		return &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: "The LFS server sends other content than the pointer names.", Cause: err,
		}
	}
	return err
}

func (e *errand) absent(wants []Want) []Want {
	return slices.DeleteFunc(slices.Clone(wants), func(w Want) bool { return e.objects.params.Store.Has(e.uid, w.Pointer) })
}

func (e *errand) reason(w Want, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if said, ok := e.reasons[w.Pointer]; ok {
		return said
	}
	if err == nil {
		return errUnsaid
	}
	return err
}

// askReplicas gets what other replicas hold: those first that can but look, then the owner, who
// asks the upstream. err is why this replica could not, and stays the reason for what nobody has,
// unless the owner gives a better one.
func (e *errand) askReplicas(ctx context.Context, r *mirroring.Repository, wants []Want, err error) error {
	owner, unknown := r.Owner(ctx)
	if unknown != nil {
		owner = ""
	}
	others := slices.DeleteFunc(r.Others(), func(replica string) bool { return replica == owner })
	if owner != "" && r.Epoch() == 0 {
		others = append(others, owner)
	}
	for _, replica := range others {
		for _, w := range e.absent(wants) {
			failed := e.askReplica(ctx, r, replica, w)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if replica == owner && failed != nil && !errors.Is(failed, ErrAbsent) {
				err = failed
			}
			if failed != nil && !errors.Is(failed, ErrAbsent) {
				e.objects.params.Logger.InfoContext(ctx, "lfs object not copied", slog.String("leat.repository.uid", e.uid),
					slog.String("from", replica), slog.Any("error", failed))
				break // it does not answer, or its upstream does not
			}
		}
	}
	return err
}

func (e *errand) askReplica(ctx context.Context, r *mirroring.Repository, replica string, w Want) error {
	body, err := e.objects.params.Holders.Read(ctx, replica, r.Definition(), e.url, w)
	if err != nil {
		return err
	}
	if err := errors.Join(e.store(w, body), body.Close()); err != nil {
		return err
	}
	e.objects.land(e.uid, w, nil)
	return nil
}

// Copier keeps this replica's objects in step with another's. It may be used concurrently.
type Copier struct {
	Store   *Store
	Holders Holders
}

var _ mirror.Objects = (*Copier)(nil)

// Copy implements [mirror.Objects].
func (c *Copier) Copy(ctx context.Context, replica string, def mirror.Definition) error {
	held, err := c.Store.List(def.UID)
	if err != nil {
		return err
	}
	_, theirs, err := c.Holders.List(ctx, replica, def, Fingerprint(held))
	if err != nil {
		return err
	}
	for _, p := range theirs {
		if c.Store.Has(def.UID, p) {
			continue
		}
		if err := c.copy(ctx, replica, def, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Copier) copy(ctx context.Context, replica string, def mirror.Definition, p Pointer) error {
	body, err := c.Holders.Read(ctx, replica, def, "", Want{Pointer: p})
	if err == nil {
		err = errors.Join(c.Store.Put(def.UID, p, body), body.Close())
	}
	if errors.Is(err, ErrAbsent) { // dropped meanwhile
		return nil
	}
	return err
}

// Remove implements [mirror.Objects].
func (c *Copier) Remove(_ context.Context, uid string) error { return c.Store.Remove(uid) }
