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

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// download gets objects of one repository that no other download is getting.
type download struct {
	params   Params
	uid, url string
	arrived  func(w Want) // is called as soon as an object is stored

	mu      sync.Mutex
	reasons map[Pointer]error // why the upstream does not give an object
}

// run asks the upstream, if this replica may, and other replicas for what that did not give.
func (d *download) run(ctx context.Context, wants []Want) error {
	r, err := d.params.Find(d.uid)
	if err != nil {
		return err
	}
	err = r.AsOwner(ctx, func(ctx context.Context, right mirror.OwnerTask) error {
		return d.params.Server.Fetch(ctx, Request{OwnerTask: right, URL: d.url, Wants: wants}, d.receive)
	})
	rest := d.absent(wants)
	if len(rest) < len(wants) {
		r.Announce()
	}
	if len(rest) > 0 {
		err = d.askReplicas(ctx, r, rest, err)
	}
	return err
}

// receive stores what the upstream sends.
func (d *download) receive(w Want, body io.Reader, err error) {
	if err == nil {
		err = d.store(w, body)
	}
	if err == nil {
		d.arrived(w)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reasons[w.Pointer] = err
}

// store stores a received object. Wrong content is the fault of its sender.
func (d *download) store(w Want, body io.Reader) error {
	err := d.params.Store.Put(d.uid, w.Pointer, body)
	if errors.Is(err, digest.ErrMismatch) {
		return &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: "The LFS server sends other content than the pointer names.", Cause: err,
		}
	}
	return err
}

// absent returns the objects that are not held yet.
func (d *download) absent(wants []Want) []Want {
	return slices.DeleteFunc(slices.Clone(wants), func(w Want) bool { return d.params.Store.Has(d.uid, w.Pointer) })
}

// failure returns why an object could not be had. err is the error of the whole download.
func (d *download) failure(w Want, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if said, ok := d.reasons[w.Pointer]; ok {
		return said
	}
	if err == nil {
		return errUnsaid
	}
	return err
}

// askReplicas fetches objects from other replicas: first from replicas that only check their own
// store, then from the owner, which may ask the upstream. err is why this replica could not fetch
// them, and stays the reason for objects that no replica has, unless the owner gives a better one.
func (d *download) askReplicas(ctx context.Context, r *mirroring.Repository, wants []Want, err error) error {
	owner, unknown := r.Owner(ctx)
	if unknown != nil {
		owner = ""
	}
	others := slices.DeleteFunc(r.Others(), func(replica string) bool { return replica == owner })
	if owner != "" && r.Epoch() == 0 {
		others = append(others, owner)
	}
	for _, replica := range others {
		for _, w := range d.absent(wants) {
			failed := d.askReplica(ctx, r, replica, w)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if replica == owner && failed != nil && !errors.Is(failed, ErrAbsent) {
				err = failed
			}
			if failed != nil && !errors.Is(failed, ErrAbsent) {
				d.params.Logger.InfoContext(ctx, "lfs object not copied", slog.String("leat.repository.uid", d.uid),
					slog.String("from", replica), slog.Any("error", failed))
				break // it does not answer, or its upstream does not
			}
		}
	}
	return err
}

func (d *download) askReplica(ctx context.Context, r *mirroring.Repository, replica string, w Want) error {
	body, err := d.params.Holders.Read(ctx, replica, r.Definition(), d.url, w)
	if err != nil {
		return err
	}
	if err := errors.Join(d.store(w, body), body.Close()); err != nil {
		return err
	}
	d.arrived(w)
	return nil
}
