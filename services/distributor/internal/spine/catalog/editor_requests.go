// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RequestsFullError means that there are too many open access requests.
type RequestsFullError struct {
	// Most is the limit, of the caller's own requests if IsOwn is true, and of all otherwise.
	Most  int
	IsOwn bool
}

// Error implements error.
func (e *RequestsFullError) Error() string {
	if e.IsOwn {
		return fmt.Sprintf("you have %d open access requests already; withdraw one, or wait for a decision", e.Most)
	}
	return fmt.Sprintf("the hub has %d open access requests already; wait until some are decided", e.Most)
}

// RequestClosedError means that an access request is not open.
type RequestClosedError struct {
	Name string
	// State is how it ended; RequestOpen if it is open, and its author's account has ended.
	State RequestState
}

// Error implements error.
func (e *RequestClosedError) Error() string {
	if e.State == RequestOpen {
		return fmt.Sprintf("access request %q cannot be approved: the account of its author has ended", e.Name)
	}
	return fmt.Sprintf("access request %q is not open: it is %s", e.Name, e.State)
}

// OwnRequestError means that a person decides about an access request of their own, with whatever
// token.
type OwnRequestError struct{ Name string }

// Error implements error.
func (e *OwnRequestError) Error() string {
	return fmt.Sprintf("access request %q is your own; another person has to decide", e.Name)
}

// NotRequesterError means that a person withdraws the access request of another one.
type NotRequesterError struct{ Name string }

// Error implements error.
func (e *NotRequesterError) Error() string {
	return fmt.Sprintf("access request %q is another person's; only its author withdraws it", e.Name)
}

// requestNameLetters is the length of the random part of a request's name.
const requestNameLetters = 12

// RequestAccess stores a new request, under a name that it makes. Every person may ask, so the
// guard does not decide. Errors: *fielderr.Error, *RequestsFullError.
//
// The bounds are counted inside of the edit. Edits follow one another over all replicas, so a burst
// of calls does not pass them.
func (e *Editor) RequestAccess(ctx context.Context, request *AccessRequest) (*AccessRequest, error) {
	wanted := *request
	wanted.Name = "access-" + strings.ToLower(rand.Text()[:requestNameLetters])
	if err := wanted.Validate(); err != nil {
		return nil, err
	}
	var created Object
	err := e.edit(ctx, func(ctx context.Context, tx Tx) error {
		all, err := accessRequests(ctx, tx)
		if err != nil {
			return err
		}
		ended, err := roomForRequest(all, wanted.Spec.Requester, Now())
		if err != nil {
			return err
		}
		for _, old := range ended {
			if err := tx.Delete(ctx, old); err != nil {
				return err
			}
		}
		created, err = e.add(ctx, tx, &wanted)
		return err
	})
	if err != nil {
		return nil, err
	}
	stored, _ := created.(*AccessRequest)
	return stored, nil
}

// roomForRequest returns the requests that make room for a new one of a person: requests that have
// ended, beyond the ones that are kept. Error: *RequestsFullError.
func roomForRequest(all []*AccessRequest, requester string, now time.Time) (old []*AccessRequest, err error) {
	open, own := 0, 0
	var ended []*AccessRequest
	for _, request := range all {
		isOwn, isOpen := request.Spec.Requester == requester, request.StateAt(now) == RequestOpen
		switch {
		case isOpen && isOwn:
			open, own = open+1, own+1
		case isOpen:
			open++
		case request.Spec.End.State != RequestOpen:
			ended = append(ended, request)
		}
	}
	switch {
	case own >= maxOpenRequests:
		return nil, &RequestsFullError{Most: maxOpenRequests, IsOwn: true}
	case open >= maxOpenInHub:
		return nil, &RequestsFullError{Most: maxOpenInHub}
	}
	slices.SortFunc(ended, func(a, b *AccessRequest) int {
		return cmp.Or(b.Spec.End.At.Compare(a.Spec.End.At), strings.Compare(a.Name, b.Name))
	})
	kept := 0
	for i, request := range ended {
		if request.Spec.Requester == requester {
			kept++
		}
		if i >= keptInHub || request.Spec.Requester == requester && kept > keptRequests {
			old = append(old, request)
		}
	}
	return old, nil
}

// ApproveAccess makes the binding of an open request, in the name of the guard's caller, who is the
// user decider. It returns the ended request. Errors: *NotFoundError, *OwnRequestError, the
// guard's, *RequestClosedError, *ReferenceError, *ExistsError.
//
// Binding and request are stored in one edit. The guard decides about the binding as if its caller
// applied it.
func (e *Editor) ApproveAccess(ctx context.Context, name, decider string) (*AccessRequest, error) {
	return endRequest(ctx, name, e.edit, e.seen, func(ctx context.Context, tx Tx, request *AccessRequest, now time.Time) (RequestEnd, error) {
		binding := request.BindingAt(now)
		if err := mayDecide(ctx, e.guard, tx, request, decider, binding, now); err != nil {
			return RequestEnd{}, err
		}
		if err := isAuthorThere(ctx, tx, request); err != nil {
			return RequestEnd{}, err
		}
		if _, err := tx.Get(ctx, binding.Key()); !errors.Is(err, ErrNotFound) {
			return RequestEnd{}, cmp.Or[error](err, &ExistsError{Key: binding.Key()})
		}
		if _, err := e.add(ctx, tx, binding); err != nil {
			return RequestEnd{}, err
		}
		return RequestEnd{State: RequestApproved, Binding: binding.Name, AccessEndsAt: binding.Spec.ExpiresAt}, nil
	})
}

// DenyAccess ends an open request without a binding, for a caller who could approve it. word is
// why; empty: no reason is given. Errors: *fielderr.Error, *NotFoundError, *OwnRequestError, the
// guard's, *RequestClosedError.
func (e *Editor) DenyAccess(ctx context.Context, name, decider, word string) (*AccessRequest, error) {
	if err := validateWords("word", word, false); err != nil {
		return nil, err
	}
	return endRequest(ctx, name, e.edit, e.seen, func(ctx context.Context, tx Tx, request *AccessRequest, now time.Time) (RequestEnd, error) {
		err := mayDecide(ctx, e.guard, tx, request, decider, request.BindingAt(now), now)
		return RequestEnd{State: RequestDenied, Word: word}, err
	})
}

// WithdrawAccess ends an open request of the user author. Errors: *NotFoundError,
// *NotRequesterError, *RequestClosedError.
func (e *Editor) WithdrawAccess(ctx context.Context, name, author string) (*AccessRequest, error) {
	return endRequest(ctx, name, e.edit, e.seen, func(_ context.Context, _ Tx, request *AccessRequest, now time.Time) (RequestEnd, error) {
		if request.Spec.Requester != author {
			return RequestEnd{}, &NotRequesterError{Name: name}
		}
		return RequestEnd{State: RequestWithdrawn}, mustBeOpen(request, now)
	})
}

// mayDecide returns an error unless the guard's caller may make the binding of an open request of
// another person. Only a caller with the right learns how the request ended.
func mayDecide(ctx context.Context, guard Guard, tx Tx, request *AccessRequest, decider string, binding *AccessBinding, now time.Time) error {
	if request.Spec.Requester == decider {
		return &OwnRequestError{Name: request.Name}
	}
	if err := guard.MayCreate(ctx, tx, binding); err != nil {
		return err
	}
	return mustBeOpen(request, now)
}

func mustBeOpen(request *AccessRequest, now time.Time) error {
	if state := request.StateAt(now); state != RequestOpen {
		return &RequestClosedError{Name: request.Name, State: state}
	}
	return nil
}

// isAuthorThere returns a *RequestClosedError if the author of a request has gone, so that the
// binding would be another person's: a user who was deleted, even if there is another one of that
// name by now, or a person of an identity provider whose name a user of the hub has by now.
func isAuthorThere(ctx context.Context, tx Tx, request *AccessRequest) error {
	object, err := tx.Get(ctx, Key{KindUser, request.Spec.Requester})
	isAbsent := errors.Is(err, ErrNotFound)
	if err != nil && !isAbsent {
		return err
	}
	uid := ""
	if !isAbsent {
		uid = object.Meta().UID
	}
	if uid != request.Spec.RequesterUID {
		return &RequestClosedError{Name: request.Name}
	}
	return nil
}

// endRequest ends a request that the guard's caller sees. decide returns how, without the person
// and the time.
func endRequest(
	ctx context.Context, name string,
	edit func(context.Context, func(context.Context, Tx) error) error, seen func(context.Context, Tx, Key) (Object, error),
	decide func(ctx context.Context, tx Tx, request *AccessRequest, now time.Time) (RequestEnd, error),
) (*AccessRequest, error) {
	key := Key{KindAccessRequest, name}
	if err := key.Kind.validateName("name", name); err != nil {
		return nil, err
	}
	var ended *AccessRequest
	err := edit(ctx, func(ctx context.Context, tx Tx) error {
		object, err := seen(ctx, tx, key)
		if err != nil {
			return err
		}
		request, ok := object.(*AccessRequest)
		if !ok {
			return &NotFoundError{Key: key}
		}
		now := Now()
		end, err := decide(ctx, tx, request, now)
		if err != nil {
			return err
		}
		ended, err = putEnd(ctx, tx, request, end, now)
		return err
	})
	return ended, err
}

// putEnd stores how a request ended.
func putEnd(ctx context.Context, tx Tx, request *AccessRequest, end RequestEnd, now time.Time) (*AccessRequest, error) {
	next, origin := *request, OriginOf(ctx)
	end.By, end.At = origin.By(), now
	next.Spec.End = end
	next.Generation++
	next.ResourceVersion, next.UpdatedAt, next.UpdatedBy, next.Reason = tx.Revision(), now, origin.By(), origin.Reason
	return &next, tx.Put(ctx, &next)
}

// SweepRequests stores that requests have lapsed, and forgets requests that ended long ago.
// Replicas may do it at the same time.
func (e *Editor) SweepRequests(ctx context.Context) error {
	return e.edit(ctx, func(ctx context.Context, tx Tx) error {
		all, err := accessRequests(ctx, tx)
		if err != nil {
			return err
		}
		now := Now()
		for _, request := range all {
			switch {
			case request.isForgotten(now):
				err = tx.Delete(ctx, request)
			case request.hasLapsed(now):
				_, err = putEnd(ctx, tx, request, RequestEnd{State: RequestLapsed}, now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// IsDue reports whether SweepRequests would change the request at that time.
func (r *AccessRequest) IsDue(at time.Time) bool { return r.isForgotten(at) || r.hasLapsed(at) }

// hasLapsed reports whether the request has lapsed, and is stored as open.
func (r *AccessRequest) hasLapsed(at time.Time) bool {
	return r.Spec.End.State == RequestOpen && r.StateAt(at) == RequestLapsed
}

func accessRequests(ctx context.Context, tx Tx) ([]*AccessRequest, error) {
	all, err := tx.AllOf(ctx, KindAccessRequest)
	return PlainOf[*AccessRequest](all), err
}
