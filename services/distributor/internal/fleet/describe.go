// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var (
	_ find.Fleet   = Finding{}
	_ notify.Fleet = AllObservations{}
)

// teller describes the view's objects of one kind for each reader.
type teller struct {
	record func(*Records, catalog.Object) Record
	row    func(*Records, catalog.Object) *find.Row
	// seen is nil for kinds without notifications.
	seen func(AllObservations, catalog.Object) notify.Seen
}

// tellers are those of the kinds of which the view knows more than the objects, or in whose objects it sees problems, in
// the order of catalog.Kinds.
var tellers = inOrder(withPlain(map[catalog.Kind]teller{
	catalog.KindProject:          {ofKind(recordOfProject), plainRow, nil},
	catalog.KindCluster:          {ofKind(recordOfCluster), ofKind(rowOfCluster), ofKind(AllObservations.cluster)},
	catalog.KindRepository:       {ofKind(recordOfRepository), ofKind(rowOfRepository), ofKind(AllObservations.repository)},
	catalog.KindConfigBackend:    {plainRecord, plainRow, AllObservations.lookedUp},
	catalog.KindService:          {ofKind(recordOfService), ofKind(rowOfService), ofKind(AllObservations.service)},
	catalog.KindAccessBinding:    {ofKind(recordOfBinding), plainRow, nil},
	catalog.KindIdentityProvider: {ofKind(recordOfProvider), plainRow, nil},
	catalog.KindNotifier:         {plainRecord, plainRow, ofKind(AllObservations.notifier)},
	catalog.KindGlobalService:    {ofKind(recordOfGlobal), ofKind(rowOfGlobal), ofKind(AllObservations.global)},
	catalog.KindRolloutPolicy:    {plainRecord, plainRow, AllObservations.lookedUp},
	catalog.KindFleetSource:      {plainRecord, plainRow, AllObservations.lookedUp},
	catalog.KindImagePolicy:      {plainRecord, plainRow, AllObservations.lookedUp},
	catalog.KindAccessRequest:    {plainRecord, plainRow, ofKind(AllObservations.accessRequest)},
}))

// withPlain adds the kinds of which the view knows only the objects.
func withPlain(known map[catalog.Kind]teller) map[catalog.Kind]teller {
	for _, kind := range catalog.Kinds() {
		if known[kind].record == nil {
			known[kind] = teller{plainRecord, plainRow, nil}
		}
	}
	return known
}

func plainRecord(_ *Records, object catalog.Object) Record { return Record{Object: object} }
func plainRow(_ *Records, object catalog.Object) *find.Row { return &find.Row{Object: object} }

// Get returns one object.
func (r *Records) Get(key catalog.Key) (Record, bool) {
	object, place := r.catalog.findAt(key)
	if object == nil {
		return Record{}, false
	}
	return tellers[place].record(r, object), true
}

// List returns objects by name, and whether there are more.
func (r *Records) List(q Query) (records []Record, more bool) {
	objects, more := r.catalog.list(q)
	record := tellers[r.catalog.contents.byKind[q.Kind].place()].record
	records = make([]Record, 0, len(objects))
	for _, object := range objects {
		records = append(records, record(r, object))
	}
	return records, more
}

// Describe returns the object with the status that belongs to its name. The object may differ from
// the catalog's, as in a dry run.
func (r *Records) Describe(object catalog.Object) Record {
	return tellers[r.catalog.contents.byKind[object.Key().Kind].place()].record(r, object)
}

// Describe implements find.Fleet.
func (f Finding) Describe(key catalog.Key) *find.Row {
	object, place := f.View.Catalog.findAt(key)
	if object == nil {
		return nil
	}
	return tellers[place].row(f.View.Records, object)
}

// See implements notify.Fleet.
func (o AllObservations) See(key catalog.Key) (notify.Seen, bool) {
	object, place := o.View.Catalog.findAt(key)
	if object == nil || tellers[place].seen == nil {
		return notify.Seen{}, false
	}
	return tellers[place].seen(o, object), true
}
