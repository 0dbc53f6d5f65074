// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncrequest"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// MaxDocuments bounds one Apply.
const MaxDocuments = 1000

// Action is the effect of applying a document.
type Action int

// The actions.
const (
	ActionUnchanged Action = iota
	ActionCreated
	ActionConfigured
)

// Outcome is the outcome of one document.
type Outcome struct {
	Action Action
	// Object is the object as it is now.
	Object Object
}

// Editor changes the catalog. It is safe for concurrent use. Its errors are those listed with
// ErrNotFound.
type Editor struct {
	store Editable
	// local lets agents and identity providers be dialled at addresses of the hub's own machine or
	// link.
	local    bool
	guard    Guard
	derived  Derivations
	presence presence
	// cascades is true if global services are deleted with their derived services.
	cascades bool
	// manager is the fleet source that edits; its zero value is anybody else.
	manager Manager
	// samePublic reports whether two objects differ in nothing but secrets. Nil: never.
	samePublic func(a, b Object) bool
}

// presence decides which objects an Apply may find.
type presence int

const (
	mayExist presence = iota
	mustBeNew
	mustExist
)

// NewEditor returns an Editor of the store, for which every edit is allowed.
func NewEditor(store Editable) *Editor {
	return &Editor{store: store, guard: unguarded{}, derived: underived{}}
}

// WithLocalEndpoints returns an Editor that takes endpoints of agents and identity providers at
// loopback and link-local addresses: for tests and development, where everything is on one machine.
func (e *Editor) WithLocalEndpoints() *Editor {
	next := *e
	next.local = true
	return &next
}

// Creating returns an Editor whose Apply refuses objects that exist, as *ExistsError.
func (e *Editor) Creating() *Editor {
	next := *e
	next.presence = mustBeNew
	return &next
}

// Updating returns an Editor whose Apply refuses objects that do not exist, as *NotFoundError. It takes what people
// may decide about derived services.
func (e *Editor) Updating() *Editor {
	next := *e
	next.presence = mustExist
	return &next
}

// validate is the object's own validation, and what depends on where the hub runs.
func (e *Editor) validate(object Object) error {
	if err := object.Validate(); err != nil || e.local {
		return err
	}
	return object.reachable()
}

// errDryRun rolls a transaction back that went well.
var errDryRun = errors.New("dry run")

// Apply creates or updates the objects, all or none, in an order that satisfies their references,
// and returns the outcomes in the order of the objects. With dryRun nothing is stored. Errors name
// the field as documents[i].…: *fielderr.Error, *ReferenceError; ErrConflict.
func (e *Editor) Apply(ctx context.Context, objects []Object, dryRun bool) ([]Outcome, error) {
	if err := e.checkDocuments(objects); err != nil {
		return nil, err
	}
	var outcomes []Outcome
	err := e.edit(ctx, func(ctx context.Context, tx Tx) error {
		if err := e.checkManager(ctx, tx); err != nil {
			return err
		}
		sources, err := storedSources(ctx, tx, objects)
		if err != nil {
			return err
		}
		outcomes = make([]Outcome, len(objects))
		for _, i := range byReference(objects) {
			outcome, err := e.put(ctx, tx, objects[i])
			if err != nil {
				return inDocument(i, err)
			}
			outcomes[i] = outcome
		}
		for i, outcome := range outcomes {
			if outcome.Action == ActionUnchanged {
				continue
			}
			if err := outcome.Object.checkSettled(ctx, tx); err != nil {
				return inDocument(i, err)
			}
			if err := checkWriters(ctx, tx, e.guard, sources[outcome.Object.Key()], outcome.Object); err != nil {
				return inDocument(i, err)
			}
		}
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return nil, err
	}
	return outcomes, nil
}

func (e *Editor) checkDocuments(objects []Object) error {
	if len(objects) > MaxDocuments {
		return fielderr.New("documents", "has %d documents; at most %d are allowed", len(objects), MaxDocuments)
	}
	seen := make(map[Key]int, len(objects))
	for i, object := range objects {
		if err := e.validate(object); err != nil {
			return inDocument(i, err)
		}
		if first, twice := seen[object.Key()]; twice {
			return inDocument(i, fielderr.New("metadata.name", "%q was given in documents[%d] already", objectname.Display(object.Key().Name), first))
		}
		seen[object.Key()] = i
	}
	return nil
}

// byReference returns the indices of objects so that what an object names comes before it.
func byReference(objects []Object) []int {
	rank := make(map[Kind]int)
	for i, kind := range Kinds() {
		rank[kind] = i
	}
	order := make([]int, len(objects))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rank[objects[a].Key().Kind], rank[objects[b].Key().Kind])
	})
	return order
}

// Delete removes an object and returns what it was. Errors: *NotFoundError, *InUseError.
func (e *Editor) Delete(ctx context.Context, key Key) (Object, error) {
	if err := key.Kind.validateName("name", key.Name); err != nil {
		return nil, err
	}
	var deleted Object
	err := e.edit(ctx, func(ctx context.Context, tx Tx) (err error) {
		if err := e.checkManager(ctx, tx); err != nil {
			return err
		}
		if deleted, err = e.seen(ctx, tx, key); err != nil {
			return e.whyAbsent(key, err)
		}
		if err := e.guard.MayDelete(ctx, tx, deleted); err != nil {
			return err
		}
		if err := e.mayDeleteManaged(ctx, tx, deleted); err != nil {
			return err
		}
		if key == DefaultProject().Key() {
			return fielderr.New("name", "%q is the project that always exists; it cannot be deleted", key.Name)
		}
		by, err := tx.Dependents(ctx, key)
		if err != nil {
			return err
		}
		if len(by) > 0 {
			return &InUseError{Key: key, By: by}
		}
		return tx.Delete(ctx, deleted)
	})
	return deleted, err
}

// RequestSync stamps a new sync request on the service and returns it. Error: *NotFoundError.
func (e *Editor) RequestSync(ctx context.Context, name string, regenerates bool) (string, error) {
	request := syncrequest.New(regenerates)
	err := e.edit(ctx, func(ctx context.Context, tx Tx) error {
		current, err := tx.Get(ctx, Key{KindService, name})
		if derived := e.derived.Derived(name); errors.Is(err, ErrNotFound) && derived != nil {
			current, err = derived, nil
		}
		if err != nil {
			return err
		}
		next, ok := current.clone().(*Service)
		if !ok {
			return &NotFoundError{Key: Key{KindService, name}}
		}
		next.SyncRequest = request
		return tx.Put(ctx, next)
	})
	return request, err
}

// put stores an object as the editor's presence asks for.
func (e *Editor) put(ctx context.Context, tx Tx, object Object) (Outcome, error) {
	current, err := stored(ctx, tx, object.Key())
	isAbsent := errors.Is(err, ErrNotFound)
	if err != nil && !isAbsent {
		return Outcome{}, err
	}
	switch {
	case e.presence == mustExist:
		return e.update(ctx, tx, current, object)
	case isAbsent:
		created, err := e.insert(ctx, tx, object)
		return Outcome{Action: ActionCreated, Object: created}, err
	case e.presence == mustBeNew || !e.guard.Sees(current):
		return Outcome{}, e.checkTaken(ctx, tx, object)
	}
	return e.replace(ctx, tx, current, object)
}

// update replaces an object that exists; current is nil if it does not. People may decide a little about a
// derived service, which is not stored.
func (e *Editor) update(ctx context.Context, tx Tx, current, object Object) (Outcome, error) {
	if current != nil && e.guard.Sees(current) {
		return e.replace(ctx, tx, current, object)
	}
	missing := &NotFoundError{Key: object.Key()}
	if current != nil {
		return Outcome{}, missing
	}
	if derived := e.derivedOf(object.Key(), missing); derived != nil {
		return e.updateDerived(ctx, tx, derived, object)
	}
	return Outcome{}, missing
}

func (e *Editor) insert(ctx context.Context, tx Tx, object Object) (Object, error) {
	if err := e.guard.MayCreate(ctx, tx, object); err != nil {
		return nil, err
	}
	if err := cmp.Or(checkReserved(nil, object), checkEnds(e.presence, nil, object)); err != nil {
		return nil, err
	}
	if err := e.checkUnderived(object); err != nil {
		return nil, err
	}
	if err := checkRoomInProject(ctx, tx, object); err != nil {
		return nil, err
	}
	return e.add(ctx, tx, object)
}

// add stores a new object, which the caller has checked except for its references.
func (e *Editor) add(ctx context.Context, tx Tx, object Object) (Object, error) {
	if err := object.checkReferences(ctx, tx); err != nil {
		return nil, err
	}
	created := normal(object)
	if err := created.settle(nil); err != nil {
		return nil, err
	}
	e.settleReach(nil, created)
	meta := created.Meta()
	meta.UID = rand.Text()
	meta.Generation = 1
	meta.ResourceVersion = tx.Revision()
	meta.CreatedAt = Now()
	meta.UpdatedAt = meta.CreatedAt
	origin := OriginOf(ctx)
	meta.CreatedBy, meta.UpdatedBy, meta.Reason = origin.By(), origin.By(), origin.Reason
	meta.Manager = e.manager.Source
	if err := tx.Put(ctx, created); err != nil {
		return nil, err
	}
	return created, e.noteAuthors(ctx, tx, nil, created)
}

func (e *Editor) replace(ctx context.Context, tx Tx, current, object Object) (Outcome, error) {
	have, want := current.Meta(), object.Meta()
	if want.ResourceVersion != 0 && want.ResourceVersion != have.ResourceVersion {
		return Outcome{}, ErrConflict
	}
	next := normal(object)
	carryOver(have, next.Meta())
	if err := next.settle(current); err != nil {
		return Outcome{}, err
	}
	e.settleReach(current, next)
	isManaging := e.manager.Source != SourceRef{}
	if isManaging {
		keepConfirmation(current, next)
	}
	if err := next.Validate(); err != nil {
		return Outcome{}, err
	}
	if err := e.guard.MayUpdate(ctx, tx, current, next); err != nil {
		return Outcome{}, err
	}
	if err := cmp.Or(checkReserved(current, next), checkEnds(e.presence, current, next)); err != nil {
		return Outcome{}, err
	}
	sameSpec := next.sameSpec(current)
	isSame := sameSpec && sameLabels(have, next.Meta())
	manager, err := e.settleManager(ctx, tx, current, next, isSame)
	if err != nil {
		return Outcome{}, err
	}
	if isSame && (manager == have.Manager || !isManaging) {
		return Outcome{Action: ActionUnchanged, Object: current}, nil
	}
	next.Meta().Manager = manager
	if err := next.checkReferences(ctx, tx); err != nil {
		return Outcome{}, err
	}
	meta := next.Meta()
	meta.ResourceVersion = tx.Revision()
	meta.UpdatedAt = Now()
	origin := OriginOf(ctx)
	meta.UpdatedBy, meta.Reason = origin.By(), origin.Reason
	if !sameSpec {
		meta.Generation++
	}
	if err := tx.Put(ctx, next); err != nil {
		return Outcome{}, err
	}
	if err := e.noteAuthors(ctx, tx, current, next); err != nil {
		return Outcome{}, err
	}
	return Outcome{Action: ActionConfigured, Object: next}, e.settleDepartures(ctx, tx, current, next)
}

// carryOver moves what an update cannot set into the metadata of the next object.
func carryOver(have, next *Metadata) {
	next.UID, next.Generation, next.CreatedAt, next.CreatedBy, next.Manager = have.UID, have.Generation, have.CreatedAt, have.CreatedBy, have.Manager
}

// normal returns a copy in which what has several spellings has the stored one.
func normal(object Object) Object {
	object = object.clone()
	meta := object.Meta()
	if len(meta.Labels) == 0 {
		meta.Labels = nil
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
	object.normalize()
	return object
}

// settleReach sets whether a repository is confined to public addresses. A person who may create
// repositories of the hub confirms its target by any edit. Of others, an edit that leaves the
// servers as they are changes nothing.
func (e *Editor) settleReach(current, next Object) {
	repository, ok := next.(*Repository)
	if !ok {
		return
	}
	stored, _ := current.(*Repository)
	repository.Spec.PublicOnly = !e.guard.MayNameAddresses() &&
		(stored == nil || stored.Spec.PublicOnly || repository.Spec.leadsElsewhere(stored.Spec))
}

// Now returns the time with the precision of the store, so that a written time equals the one read
// later.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
