// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/syncrequest"
)

// MaxDocuments bounds one Apply.
const MaxDocuments = 1000

// Action is what applying a document did.
type Action int

// The actions.
const (
	ActionUnchanged Action = iota
	ActionCreated
	ActionConfigured
)

// Outcome is what became of one document.
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
	local   bool
	guard   Guard
	derived Derivations
	// cascades is true if global services are deleted with what is derived from them.
	cascades bool
	// manager is the fleet source that edits; its zero value is anybody else.
	manager Manager
	// samePublic reports whether two objects differ in nothing but secrets. Nil: never.
	samePublic func(a, b Object) bool
}

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

// validate is the object's own validation, and what depends on where the hub runs.
func (e *Editor) validate(object Object) error {
	if err := object.Validate(); err != nil || e.local {
		return err
	}
	return cmp.Or(publicEndpoint(object), publicIssuer(object), publicBackend(object), publicSink(object))
}

// errDryRun rolls a transaction back that went well.
var errDryRun = errors.New("dry run")

// Apply creates or updates the objects, all or none, in an order that satisfies their references,
// and returns the outcomes in the order of the objects. With dryRun nothing is stored. Errors name
// the field as documents[i].….
func (e *Editor) Apply(ctx context.Context, objects []Object, dryRun bool) ([]Outcome, error) {
	if err := e.checkDocuments(objects); err != nil {
		return nil, err
	}
	var outcomes []Outcome
	err := e.edit(ctx, func(ctx context.Context, tx Tx) error {
		if err := e.checkManager(ctx, tx); err != nil {
			return err
		}
		outcomes = make([]Outcome, len(objects))
		for _, i := range byReference(objects) {
			outcome, err := e.upsert(ctx, tx, objects[i])
			if err != nil {
				return inDocument(i, err)
			}
			outcomes[i] = outcome
		}
		for i, outcome := range outcomes {
			if outcome.Action == ActionUnchanged {
				continue
			}
			if err := checkSettled(ctx, tx, outcome.Object); err != nil {
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

// byReference returns the indices of objects so that what an object names comes before it: projects,
// then what services, policies and bindings name, then those.
func byReference(objects []Object) []int {
	order := make([]int, len(objects))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		switch objects[i].Key().Kind { //nolint:exhaustive // the others name nothing but projects
		case KindProject:
			return 0
		case KindService, KindGlobalService, KindAccessBinding, KindFleetSource, KindRolloutPolicy:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// Create adds an object. Errors: *fielderr.Error, *ReferenceError, *ExistsError.
func (e *Editor) Create(ctx context.Context, object Object) (Object, error) {
	if err := e.validate(object); err != nil {
		return nil, err
	}
	var created Object
	err := e.edit(ctx, func(ctx context.Context, tx Tx) error {
		_, err := stored(ctx, tx, object.Key())
		switch {
		case err == nil:
			return e.checkTaken(ctx, tx, object)
		case !errors.Is(err, ErrNotFound):
			return err
		}
		if created, err = e.insert(ctx, tx, object); err != nil {
			return err
		}
		return checkSettled(ctx, tx, created)
	})
	return created, err
}

// Update replaces labels, annotations and spec. Errors: *fielderr.Error, *ReferenceError,
// *NotFoundError, ErrConflict.
func (e *Editor) Update(ctx context.Context, object Object) (Object, error) {
	if err := e.validate(object); err != nil {
		return nil, err
	}
	var outcome Outcome
	err := e.edit(ctx, func(ctx context.Context, tx Tx) error {
		current, err := e.seen(ctx, tx, object.Key())
		if derived := e.derivedOf(object.Key(), err); derived != nil {
			outcome.Object, err = e.updateDerived(ctx, tx, derived, object)
			return err
		}
		if err != nil {
			return err
		}
		if outcome, err = e.replace(ctx, tx, current, object); err != nil || outcome.Action == ActionUnchanged {
			return err
		}
		return checkSettled(ctx, tx, outcome.Object)
	})
	return outcome.Object, err
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
		if err := e.guard.MayDelete(ctx, tx.Get, deleted); err != nil {
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

func (e *Editor) upsert(ctx context.Context, tx Tx, object Object) (Outcome, error) {
	current, err := stored(ctx, tx, object.Key())
	switch {
	case errors.Is(err, ErrNotFound):
		created, err := e.insert(ctx, tx, object)
		return Outcome{Action: ActionCreated, Object: created}, err
	case err != nil:
		return Outcome{}, err
	case !e.guard.Sees(current):
		return Outcome{}, e.checkTaken(ctx, tx, object)
	}
	return e.replace(ctx, tx, current, object)
}

func (e *Editor) insert(ctx context.Context, tx Tx, object Object) (Object, error) {
	if err := e.guard.MayCreate(ctx, tx.Get, object); err != nil {
		return nil, err
	}
	if err := checkReserved(nil, object); err != nil {
		return nil, err
	}
	if err := e.checkUnderived(object); err != nil {
		return nil, err
	}
	if err := checkRoomInProject(ctx, tx, object); err != nil {
		return nil, err
	}
	if err := checkReferences(ctx, tx, object); err != nil {
		return nil, err
	}
	created := normal(object.clone())
	if err := settleNew(created); err != nil {
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

// settleNew completes what an update would take over from the stored object.
func settleNew(created Object) (err error) {
	switch o := created.(type) {
	case *Repository:
		o.Spec, err = o.Spec.settle(nil)
		return err
	case *Service:
		return o.settleConfig(nil)
	case *IdentityProvider:
		return o.settleSecret(nil)
	case *ConfigBackend:
		return o.settleSecrets(nil)
	case *ConfigSet:
		return o.settleConfig(nil)
	case *Notifier:
		return o.settleSecrets(nil)
	case *GlobalService:
		return o.settleConfigs(nil)
	}
	return nil
}

func (e *Editor) replace(ctx context.Context, tx Tx, current, object Object) (Outcome, error) {
	have, want := current.Meta(), object.Meta()
	if want.ResourceVersion != 0 && want.ResourceVersion != have.ResourceVersion {
		return Outcome{}, ErrConflict
	}
	next, err := carryOver(current, normal(object.clone()))
	if err != nil {
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
	if err := e.guard.MayUpdate(ctx, tx.Get, current, next); err != nil {
		return Outcome{}, err
	}
	if err := checkReserved(current, next); err != nil {
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
	if err := checkReferences(ctx, tx, next); err != nil {
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

// settleReach says of a repository whether it is confined to public addresses. Who may create
// repositories of the hub confirms where it leads by any edit. Of others, an edit that leaves the
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

// carryOver moves into next what an update cannot set, and what it leaves alone by saying nothing.
func carryOver(current, next Object) (_ Object, err error) {
	have, meta := current.Meta(), next.Meta()
	meta.UID, meta.Generation, meta.CreatedAt, meta.CreatedBy, meta.Manager = have.UID, have.Generation, have.CreatedAt, have.CreatedBy, have.Manager
	switch n := next.(type) {
	case *Cluster:
		if c, ok := current.(*Cluster); ok {
			n.Agent = c.Agent
		}
	case *Repository:
		if c, ok := current.(*Repository); ok {
			if have, want := c.Spec.WithDefaults().Type, n.Spec.WithDefaults().Type; have != want {
				return nil, fielderr.New("spec.type", "is fixed to %q, because sources depend on it; create another repository of type %q", have, want)
			}
			n.Spec, err = n.Spec.settle(c)
			return next, err
		}
	case *IdentityProvider:
		if c, ok := current.(*IdentityProvider); ok {
			return next, n.settleSecret(c)
		}
	case *ConfigBackend:
		if c, ok := current.(*ConfigBackend); ok {
			return next, n.settleSecrets(c)
		}
	case *ConfigSet:
		if c, ok := current.(*ConfigSet); ok {
			return next, n.settleConfig(c.Spec.Config)
		}
	case *Notifier:
		if c, ok := current.(*Notifier); ok {
			return next, n.settleSecrets(c)
		}
	case *GlobalService:
		if c, ok := current.(*GlobalService); ok {
			return next, n.settleConfigs(c)
		}
	case *Service:
		c, ok := current.(*Service)
		if !ok {
			break
		}
		n.SyncRequest = c.SyncRequest
		return next, n.settleConfig(c.Spec.Config)
	}
	return next, nil
}

// normal gives the stored form to what has several spellings. It works on a clone.
func normal(object Object) Object {
	meta := object.Meta()
	if len(meta.Labels) == 0 {
		meta.Labels = nil
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
	switch o := object.(type) {
	case *Repository:
		o.Spec.Definition = o.Spec.WithDefaults()
	case *User:
		o.Spec.Groups = asSet(o.Spec.Groups)
	case *AccessBinding:
		o.Spec.settle()
	case *Project:
		o.Spec.settle()
	case *Role:
		o.Spec.settle()
	case *IdentityProvider:
		o.Spec.settle()
	case *TrustRule:
		o.Spec.settle()
	case *ConfigBackend:
		o.Spec.settle()
	case *Notifier:
		o.Spec.settle()
	case *GlobalService:
		o.settle()
	case *RolloutPolicy:
		o.Spec.settle()
	case *FleetSource:
		o.Spec.settle()
	}
	return object
}

func checkReferences(ctx context.Context, tx Tx, object Object) error {
	switch o := object.(type) {
	case *Repository:
		return checkRepository(ctx, tx, o)
	case *Service:
		return checkService(ctx, tx, o)
	case *AccessBinding:
		return referredRole(ctx, tx, o)
	case *GlobalService:
		return checkGlobal(ctx, tx, o)
	case *FleetSource:
		return checkFleetSource(ctx, tx, o)
	case *RolloutPolicy:
		return checkWaveClusters(ctx, tx, o)
	}
	return nil
}

func checkService(ctx context.Context, tx Tx, service *Service) error {
	own, err := ownProject(ctx, tx, service.Name)
	if err != nil {
		return err
	}
	if err := own.Spec.Limits.admitService(service); err != nil {
		return err
	}
	object, err := own.referred(ctx, tx, Key{KindCluster, service.Spec.Cluster}, "spec.cluster")
	if err != nil {
		return err
	}
	cluster, _ := object.(*Cluster)
	for i, source := range service.Spec.Sources {
		field := fielderr.Indexed("spec.sources", i)
		object, err := own.referred(ctx, tx, Key{KindRepository, source.Repository}, field+".repository")
		if err != nil {
			return err
		}
		if repository, ok := object.(*Repository); ok {
			err = cmp.Or(own.Spec.Limits.admitURL(field+".repository", own.Name, repository), source.fits(field, repository))
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(checkServiceConfig(ctx, tx, service, own, cluster), checkRoom(ctx, tx, service))
}

const (
	// maxClusterBytes bounds the specs of a cluster's services together, as JSON: its agent receives
	// them in one message of 8 MiB, with what the hub adds to each.
	maxClusterBytes = 5 << 20
	// smallSpec is what a spec without inline values stays below. It takes thousands of those to fill
	// a plan, so they are not counted.
	smallSpec = 1 << 10
)

// checkRoom refuses a large service for which the cluster's plan has no room left: without a plan,
// the agent would get no change of any service.
func checkRoom(ctx context.Context, tx Tx, service *Service) error {
	text, err := json.Marshal(service.Spec.Options)
	if err != nil || len(text) < smallSpec {
		return err
	}
	others, err := tx.SpecBytes(ctx, service.Spec.Cluster, service.Name)
	if err != nil {
		return err
	}
	if others+len(text) > maxClusterBytes {
		return fielderr.New("spec.render", "has %d bytes, and the other services of cluster %s have %d; together at most %d are allowed; put values into files",
			len(text), objectname.Display(service.Spec.Cluster), others, maxClusterBytes)
	}
	return nil
}

// Now returns the time with the precision of the store, so that what is written equals what is read
// later.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
