// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// answers decide what callers may read and write of objects of one kind besides their bindings. The
// comment of each function has the answer of nil.
type answers struct {
	// sees reports whether a person sees an object that no binding lets them see. Nil: no one does.
	sees func(sight, catalog.Object) bool
	// trim leaves out of a record the parts that a person may not read of an object that they see.
	// Nil: nothing.
	trim func(*caller, fleet.Record) fleet.Record
	// mayWrite returns an error unless the editor of the object, which was current before, holds the
	// rights for the fields of the kind that need some. Nil: no field does.
	mayWrite func(e editing, current, next catalog.Object) error
}

// kindAnswers has the kinds of which callers may know or write more, or less, than bindings give: each whose message has a
// field with an option that says what an edit of it needs.
var kindAnswers = map[catalog.Kind]answers{
	catalog.KindProject: {sees: seeing(sight.project), trim: trimming(trimProject), mayWrite: writing(editing.mayWriteProject)},
	catalog.KindCluster: {trim: trimming(trimCluster)},
	catalog.KindRepository: {
		sees: seeing(sight.repository), trim: trimming(trimRepository), mayWrite: writing(editing.mayWriteRepository),
	},
	catalog.KindService:       {mayWrite: writing(editing.mayWriteService)},
	catalog.KindUser:          {sees: seeing(sight.user), mayWrite: writing(editing.mayWriteUser)},
	catalog.KindRole:          {mayWrite: writing(editing.mayWriteRole)},
	catalog.KindAccessBinding: {sees: seeing(sight.binding), trim: trimming(trimBinding), mayWrite: writing(editing.mayWriteBinding)},
	catalog.KindTrustRule:     {mayWrite: writing(editing.mayWriteRule)},
	catalog.KindGlobalService: {mayWrite: writing(editing.mayWriteGlobal)},
	catalog.KindRolloutPolicy: {sees: seeing(sight.policy)},
	catalog.KindFleetSource:   {mayWrite: writing(editing.mayWriteSource)},
	catalog.KindImagePolicy:   {mayWrite: writing(editing.mayWriteImagePolicy)},
	catalog.KindAccessRequest: {sees: seeing(sight.accessRequest)},
}

// These make functions about one kind of objects functions about any. They are called with none of another kind.

func seeing[O catalog.Object](sees func(sight, O) bool) func(sight, catalog.Object) bool {
	return func(s sight, object catalog.Object) bool {
		o, _ := object.(O)
		return sees(s, o)
	}
}

func trimming[O catalog.Object](trim func(*caller, O, fleet.Record) fleet.Record) func(*caller, fleet.Record) fleet.Record {
	return func(c *caller, record fleet.Record) fleet.Record {
		o, _ := record.Object.(O)
		return trim(c, o, record)
	}
}

func writing[O catalog.Object](mayWrite func(e editing, current, next O) error) func(editing, catalog.Object, catalog.Object) error {
	return func(e editing, current, next catalog.Object) error {
		last, _ := current.(O)
		o, _ := next.(O)
		return mayWrite(e, last, o)
	}
}
