// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"

	"github.com/leatdev/leat/internal/kit/waiting"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/lookup"
)

// New returns an empty View; Load fills it.
func New(p Params) *View {
	p.AtOnce = p.AtOnce.orDefault()
	c, sources := newCatalog(), newSourceStates()
	admitted, reported := newAdmissions(c), newReports()
	v := &View{
		Catalog:     c,
		Presence:    &Presence{store: p.Store, objects: p.Objects, arrived: wake.NewSignal(), byUID: map[string]*agentPresence{}},
		Tallies:     &Tallies{catalog: c, byCluster: map[string]*clusterTally{}},
		BundleBooks: &BundleBooks{catalog: c, sources: sources, byProject: map[string]*bundleBook{}},
		p:           p,
		sources:     sources,
		plans:       newPlanBook(c, sources, admitted, reported, p.Settings, p.Tracer),
		admitted:    admitted,
		ends:        newNextEnds(c, admitted),
		reports:     reported,
		grants:      &grants{byKey: map[grantKey]catalog.Grant{}},
		lookups:     &lookups{byUID: map[string]*clusterLookups{}},
		newSources:  wake.NewSignal(),
		deriving:    wake.NewSignal(),
		sharing:     newSharing(),
		writing:     turn{ended: p.Changed, line: cmp.Or(p.Waiting, new(waiting.Line))},
	}
	c.contents.specFor, v.reading = admitted.specFor, newReading(v)
	v.Records = &Records{
		catalog: c, presence: v.Presence, tallies: v.Tallies, bundleBooks: v.BundleBooks, sources: sources,
		plans: v.plans, reports: reported, reading: v.reading, admitted: admitted, hubVersion: p.HubVersion,
	}
	v.Tallies.isHealthy = v.Records.isHealthy
	v.refreshes = lookup.NewFlight(lookPause, v.Refresh)
	return v
}
