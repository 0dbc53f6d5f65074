// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"cmp"
	"crypto/rand"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/notifysink"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

// defaultSource is what messages name as their source where the hub has no public URL.
const defaultSource = "/leat"

// notifications is how the hub notifies other systems.
type notifications struct {
	// standing knows what is wrong with what services follow from.
	standing   *standing.Reader
	dispatcher *notify.Dispatcher
	// tester sends the messages that people ask for.
	tester notify.Tester
}

func (c *Config) openNotifications(
	store *sqlstore.Store, view *fleet.View, objects *fanout.Hub[catalog.Key], tel *telemetry.Telemetry,
) (notifications, error) {
	metrics, err := notify.NewMetrics(tel.Meter(scope))
	if err != nil {
		return notifications{}, err
	}
	stored := sqlstore.NotificationsOf(store)
	others := standing.New(standing.Params{
		Rollouts: sqlstore.RolloutsOf(store), FleetSources: sqlstore.FleetSourcesOf(store), Backends: sqlstore.NewEntries(store), Mail: stored,
		TooLarge: fleet.NewSizes(view).TooLarge,
	})
	sinks := notifysink.New(notifysink.Params{
		Guard:  dialguard.Guard{AllowLocal: c.AllowLocalAgents, RefusePrivate: c.RefusePrivateSinks},
		Source: cmp.Or(c.publicURL(), defaultSource),
	})
	return notifications{
		dispatcher: notify.NewDispatcher(notify.Params{
			Store: stored, Election: stored, Fleet: fleet.NewObservations(view, others), Sink: sinks, Objects: objects, Metrics: metrics, Logger: tel.Logger(), Holder: rand.Text(),
		}),
		standing: others,
		tester:   notify.Tester{Store: stored, Sink: sinks},
	}, nil
}
