// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Standing reads the problems of objects that many services depend on; standing.Reader implements
// it.
type Standing interface {
	// Problems returns the problems of objects. Errors match catalog.ErrUnavailable if the database
	// does not answer.
	Problems(ctx context.Context, objects []catalog.Object) ([]problems.Item, error)
}

// AllObservations are Observations with what services follow from. It is safe for concurrent use.
type AllObservations struct {
	Observations

	standing Standing
	learned  *learned
}

// learned is the database's last answer. It is safe for concurrent use.
type learned struct {
	mu    sync.Mutex
	isAny bool
	// worst are the worst problems of objects.
	worst map[catalog.Key]problems.Item
}

// NewObservations returns AllObservations that have not learned anything yet.
func NewObservations(view *View, others Standing) AllObservations {
	return AllObservations{Observations: Observations{view}, standing: others, learned: &learned{}}
}

// Learn implements notify.Fleet.
func (o AllObservations) Learn(ctx context.Context) error {
	var objects []catalog.Object
	for _, key := range o.Keys(catalog.KindRolloutPolicy, catalog.KindFleetSource, catalog.KindImagePolicy, catalog.KindConfigBackend, catalog.KindNotifier) {
		if object := o.View.Catalog.find(key); object != nil {
			objects = append(objects, object)
		}
	}
	items, err := o.standing.Problems(ctx, objects)
	if err != nil {
		return err
	}
	worst := map[catalog.Key]problems.Item{}
	for _, item := range items {
		key := catalog.Key{Kind: item.Kind, Name: item.Path}
		if last, ok := worst[key]; !ok || item.Severity > last.Severity {
			worst[key] = item
		}
	}
	o.learned.mu.Lock()
	defer o.learned.mu.Unlock()
	o.learned.isAny, o.learned.worst = true, worst
	return nil
}

// followed returns the view of an object that services depend on.
func (o AllObservations) followed(object catalog.Object, worst problems.Item) notify.Seen {
	seen := seenOf(object)
	seen.Event.Named, seen.Class = objectname.Display(object.Key().Name), notify.Well
	if worst.Severity < problems.Degraded {
		return seen
	}
	seen.Class = notify.Failing
	if worst.WaitsForPerson {
		seen.Class = notify.Waits
	}
	seen.Event.Message = worst.Message
	if worst.Reason != 0 {
		seen.Event.Reason = worst.Reason.String()
	}
	return seen
}

// lookedUp returns the view of an object whose state the database has. Before it was read, that is
// unknown.
func (o AllObservations) lookedUp(object catalog.Object) notify.Seen {
	o.learned.mu.Lock()
	worst, isAny := o.learned.worst[object.Key()], o.learned.isAny
	o.learned.mu.Unlock()
	seen := o.followed(object, worst)
	if !isAny {
		seen.Class = notify.Unknown
	}
	return seen
}

// notifier returns the view of a notifier. One of all projects belongs to the hub, and to no
// project whose notifiers could be told of it.
func (o AllObservations) notifier(n *catalog.Notifier) notify.Seen {
	seen := o.lookedUp(n)
	seen.Project, seen.Event.Project = n.Project(), n.Project()
	return seen
}

// global returns the view of a global service.
func (o AllObservations) global(global *catalog.GlobalService) notify.Seen {
	var worst problems.Item
	for _, item := range problems.OfGlobal(global, (Globals{o.View.Catalog}).problem(global)) {
		worst = item
	}
	if worst.Reason == reason.DerivationTooExpensive || worst.Reason == reason.GlobalServiceConflict {
		worst.Severity = problems.Degraded // a warning in the status of the fleet, but news
	}
	return o.followed(global, worst)
}
