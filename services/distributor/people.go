// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"cmp"
	"context"
	"time"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/headroom"
	"github.com/leatdev/leat/services/distributor/internal/api/hub"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/ui"
)

// rolloutWait is how long the answer to an edit waits for its rollout: a person sits before it.
const rolloutWait = 3 * time.Second

// openPeople returns the calls of people about objects of every kind.
func (s *spine) openPeople(content *delivery, web *ui.UI) *people.Service {
	uiURL := ""
	if web.IsBuilt() {
		uiURL = s.cfg.uiURL()
	}
	return people.New(people.Deps{
		View: s.view, Editor: s.editor, Enrolments: s.store.Enrolments(), People: s.store.Tokens(), Uses: s.uses,
		History: s.store, Grants: s.store,
		Bundles: content.cache, Resolver: content.loop, Mirrors: content.source, Issuer: s.issuer, JoinTokens: s.joinTokens,
		Audit: s.records, Configs: sqlstore.NewEntries(s.store), Objects: s.objects,
		States: people.States{
			Rollouts: sqlstore.RolloutsOf(s.store), Releases: sqlstore.RolloutsOf(s.store),
			FleetSources: sqlstore.FleetSourcesOf(s.store), Images: sqlstore.ImagePoliciesOf(s.store), Mail: sqlstore.NotificationsOf(s.store),
		},
		Logger: s.logger,
		Settings: people.Settings{
			Version: app.Version(), TunnelURL: s.cfg.TunnelURL, RedirectURI: s.cfg.redirectURI(), UIURL: uiURL, WebhookURL: s.cfg.webhookURL(), TraceURL: s.cfg.TraceURL,
			RolloutWait: cmp.Or(s.cfg.Intervals.RolloutWait, rolloutWait),
		},
	})
}

// objectsWing serves objects of every kind to people, and questions about them.
func (s *spine) objectsWing(persons *people.Service) wing {
	requests := people.NewAccessRequests(persons)
	return wing{
		mount: func(c *calls) {
			c.stream(fleetv1connect.FleetServiceWatchProcedure, c.mount(fleetv1connect.NewFleetServiceHandler(persons, c.server.Options(c.recorder)...)))
			queries := people.NewQueries(people.QueriesDeps{People: persons, Standing: s.standing})
			c.stream(fleetv1connect.QueryServiceWatchQueryProcedure, c.mount(fleetv1connect.NewQueryServiceHandler(queries, c.server.Options(c.recorder)...)))
			c.mount(fleetv1connect.NewGlobalServiceServiceHandler(people.NewGlobals(persons), c.server.Options(c.recorder)...))
			c.mount(fleetv1connect.NewAccessRequestServiceHandler(requests, c.server.Options(c.recorder)...))
		},
		work: []func(context.Context) error{s.uses.Run, s.records.Run, requests.Run},
	}
}

// uiWing serves the web UI.
func uiWing(web *ui.UI) wing {
	return wing{mount: func(c *calls) { c.pages = append(c.pages, web.Before) }}
}

// fleetWing keeps the fleet in memory as the store has it.
func (s *spine) fleetWing() wing {
	return wing{work: []func(context.Context) error{
		s.view.MonitorCatalog, s.view.MonitorPresence, s.view.MonitorArrivals, fleet.Ends{View: s.view}.Run, fleet.NewDeriver(s.view).Run,
		func(ctx context.Context) error { return fleet.ReadReports(ctx, s.view) },
		s.grow,
	}}
}

// grow has Go collect less often until the fleet is in memory.
func (s *spine) grow(ctx context.Context) error {
	defer headroom.Grow()()
	return fleet.AwaitSettled(ctx, s.view)
}

// keysWing replaces the keys that seal and sign, and shows the public ones.
func (s *spine) keysWing(persons *people.Service) wing {
	return wing{
		mount: func(c *calls) {
			c.mount(fleetv1connect.NewKeyServiceHandler(people.NewKeys(people.KeysDeps{People: persons, Keeper: s.keeper}), c.server.Options(c.recorder)...))
			c.mux.Handle(hub.JWKSPattern, hub.KeySet(s.issuer))
		},
		work: []func(context.Context) error{s.keeper.Run},
	}
}
