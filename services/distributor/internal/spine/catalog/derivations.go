// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/amount"
)

// Derivations are the services that the hub derives from global services, as an Editor knows them. They
// are of the state before an edit, perhaps without what another replica has done in this moment.
type Derivations interface {
	// Derived returns the derived service of that path, or nil.
	Derived(path string) *Service
	// Members returns how many derived services there are of the global service of that path.
	Members(global string) int
	// Review returns an error unless the edit may do to derived services what it does. It takes a second
	// at most, because a transaction waits for it. Errors: *RemovalError, *CascadeError,
	// *fielderr.Error, ErrUndecided, ErrExpensive.
	Review(edit Edited) error
}

var (
	// ErrUndecided means that the hub has not derived the services yet that an edit may be about.
	ErrUndecided = errors.New("derived services are not known yet")
	// ErrBehind means that a service is still the one that was derived from an earlier global service.
	ErrBehind = errors.New("the service is not derived yet from the present global service")
	// ErrExpensive means that the conditions of global services in an edit cost too much to be reviewed.
	ErrExpensive = errors.New("the conditions of global services cost too much to be reviewed")
)

// Edited is the effect of one edit.
type Edited struct {
	// Put are objects as they are now, and Deleted the deleted ones.
	Put, Deleted []Object
	// Created are the keys of new ones.
	Created map[Key]bool
	// Cascades is true if derived services may go with their global service.
	Cascades bool
}

// WithDerivations returns an Editor that asks about derived services.
func (e *Editor) WithDerivations(d Derivations) *Editor {
	next := *e
	next.derived = d
	return &next
}

// Cascading returns an Editor that deletes global services with their derived services.
func (e *Editor) Cascading() *Editor {
	next := *e
	next.cascades = true
	return &next
}

// underived knows no derived services.
type underived struct{}

func (underived) Derived(string) *Service { return nil }
func (underived) Members(string) int      { return 0 }
func (underived) Review(Edited) error     { return nil }

// DerivedError is the error for an edit of a derived service.
type DerivedError struct {
	// Service and Global are paths.
	Service, Global string
}

// Error implements error.
func (e *DerivedError) Error() string {
	_, cluster := objectname.SplitService(e.Service)
	return fmt.Sprintf("service %q is derived from global service %q, and of its own can only be paused, synced, rolled back and have a prune confirmed; "+
		"edit the global service, give it an override for cluster %s, or leave the cluster out of its selection",
		objectname.Display(e.Service), objectname.Display(e.Global), objectname.Display(cluster))
}

// RemovalError is the error for an edit that would take derived services from more clusters than their
// global service allows at once.
type RemovalError struct {
	Global string
	// Clusters are the paths of the first ones, and Lost how many there are.
	Clusters []string
	Lost     int
	// Members are how many the global service selects before the edit, and Allowed how many may go.
	Members, Allowed int
	// Digest confirms the removal.
	Digest string
}

// Error implements error.
func (e *RemovalError) Error() string {
	names := make([]string, len(e.Clusters))
	for i, path := range e.Clusters {
		names[i] = objectname.Display(path)
	}
	text := strings.Join(names, ", ")
	if e.Lost > len(names) {
		text += " and others"
	}
	return fmt.Sprintf("would remove the service of global service %q from %d of %d clusters (%s), and %d may go at once; correct the change, or confirm it with spec.removal.confirmation: %s",
		objectname.Display(e.Global), e.Lost, e.Members, text, e.Allowed, e.Digest)
}

// CascadeError is the error for the deletion of a global service that clusters run.
type CascadeError struct {
	Global  string
	Members int
}

// Error implements error.
func (e *CascadeError) Error() string {
	return fmt.Sprintf("global service %q runs in %s; delete it with cascade to remove its services from there", objectname.Display(e.Global), amount.Of(e.Members, "cluster"))
}

// edit runs fn in one transaction of the store, and then asks about derived services.
func (e *Editor) edit(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	return e.store.Edit(ctx, func(ctx context.Context, tx Tx) error { return e.reviewed(ctx, tx, fn) })
}

// reviewed runs fn in an edit, and then asks about derived services.
func (e *Editor) reviewed(ctx context.Context, tx Tx, fn func(ctx context.Context, tx Tx) error) error {
	noting := &notingTx{Tx: tx, edited: Edited{Created: map[Key]bool{}, Cascades: e.cascades}, known: map[Key]Object{}}
	err := fn(ctx, noting)
	if err != nil && !errors.Is(err, errDryRun) {
		return err
	}
	if refusal := e.derived.Review(noting.edited); refusal != nil {
		return refusal
	}
	return err
}

// notingTx notes what an edit does.
type notingTx struct {
	Tx

	edited Edited
	// known are the objects that others name, as the edit reads them; nil for missing ones. An edit of
	// many services names few clusters and repositories, and fewer projects.
	known map[Key]Object
}

// Get implements Tx.
func (t *notingTx) Get(ctx context.Context, key Key) (Object, error) {
	if key.Kind != KindProject && key.Kind != KindCluster && key.Kind != KindRepository {
		return t.Tx.Get(ctx, key)
	}
	object, ok := t.known[key]
	if !ok {
		var err error
		if object, err = t.Tx.Get(ctx, key); err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		t.known[key] = object
	}
	if object == nil {
		return nil, &NotFoundError{Key: key}
	}
	return object, nil
}

// Put implements Tx.
func (t *notingTx) Put(ctx context.Context, object Object) error {
	t.edited.Put = append(t.edited.Put, object)
	delete(t.known, object.Key())
	if object.Meta().Generation == 1 && object.Meta().ResourceVersion == t.Revision() && object.Meta().CreatedAt.Equal(object.Meta().UpdatedAt) {
		t.edited.Created[object.Key()] = true
	}
	return t.Tx.Put(ctx, object)
}

// Delete implements Tx.
func (t *notingTx) Delete(ctx context.Context, object Object) error {
	t.edited.Deleted = append(t.edited.Deleted, object)
	delete(t.known, object.Key())
	return t.Tx.Delete(ctx, object)
}

// whyAbsent returns the error for a service that is not stored: another one if it is derived, and the
// caller may see it.
func (e *Editor) whyAbsent(key Key, err error) error {
	if derived := e.derivedOf(key, err); derived != nil {
		return &DerivedError{Service: key.Name, Global: derived.Derived.Global}
	}
	return err
}

// checkUnderived returns an error for a new service whose name a derived one has. It comes after the
// question whether the caller may create it.
func (e *Editor) checkUnderived(object Object) error {
	if object.Key().Kind != KindService {
		return nil
	}
	if derived := e.derived.Derived(object.Key().Name); derived != nil {
		return &DerivedError{Service: object.Key().Name, Global: derived.Derived.Global}
	}
	return nil
}
