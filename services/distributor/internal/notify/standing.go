// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// events are the events of a kind of standingKinds. An empty one does not exist.
type events struct{ failing, waiting, recovered notice.Kind }

// standingEvents are by the kind of the object.
var standingEvents = map[catalog.Kind]events{
	catalog.KindRolloutPolicy: {notice.RolloutStopped, notice.RolloutWaiting, notice.RolloutRecovered},
	catalog.KindFleetSource:   {notice.FleetSourceFailing, notice.FleetSourceWaiting, notice.FleetSourceRecovered},
	catalog.KindImagePolicy:   {notice.ImagePolicyFailing, "", notice.ImagePolicyRecovered},
	catalog.KindGlobalService: {notice.GlobalServiceFailing, notice.GlobalServiceWaiting, notice.GlobalServiceRecovered},
	catalog.KindConfigBackend: {notice.ConfigBackendFailing, "", notice.ConfigBackendRecovered},
	catalog.KindNotifier:      {notice.NotifierFailing, "", notice.NotifierRecovered},
}

// announcedKinds are those of whose states the view announces every change.
var announcedKinds = []catalog.Kind{catalog.KindCluster, catalog.KindRepository, catalog.KindService, catalog.KindAccessRequest}

// standingKinds are the kinds whose objects may have problems that the view does not announce.
func standingKinds() []catalog.Kind {
	return slices.DeleteFunc(catalog.Kinds(), func(kind catalog.Kind) bool {
		return !kind.HasProblems() || slices.Contains(announcedKinds, kind)
	})
}

// of returns the event of a change of class.
func (e events) of(last State, seen Seen) []notice.Kind {
	switch {
	case seen.Class == Failing:
		return []notice.Kind{e.failing}
	case seen.Class == Waits && e.waiting != "":
		return []notice.Kind{e.waiting}
	case seen.Class == Well && last.Bad:
		return []notice.Kind{e.recovered}
	}
	return nil
}
