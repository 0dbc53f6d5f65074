// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"cmp"
	"context"
	"crypto/rand"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/notify/notifysink"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/ui"
)

// defaultSource is the source in messages where the hub has no public URL.
const defaultSource = "/leat"

// openNotifications notifies other systems, and sends the messages that people ask for to try a notifier.
func (s *spine) openNotifications(persons *people.Service, web *ui.UI) (wing, error) {
	metrics, err := notify.NewMetrics(s.tel.Meter(scope))
	if err != nil {
		return wing{}, err
	}
	stored := sqlstore.NotificationsOf(s.store)
	pages := notifysink.Pages{}
	if web.IsBuilt() && s.cfg.PublicURL != "" {
		pages.URL = s.cfg.uiURL()
	}
	sinks := notifysink.New(notifysink.Params{
		Guard:  dialguard.Guard{AllowLocal: s.cfg.AllowLocalAgents, RefusePrivate: s.cfg.RefusePrivateSinks},
		Source: cmp.Or(s.cfg.publicURL(), defaultSource), Pages: pages,
	})
	dispatcher := notify.NewDispatcher(notify.Params{
		Store: stored, Election: stored, Fleet: fleet.NewObservations(s.view, s.standing), Sink: sinks, Objects: s.objects,
		Metrics: metrics, Logger: s.logger, Holder: rand.Text(),
	})
	return wing{
		mount: func(c *calls) {
			service := people.NewNotifiers(persons, notify.Tester{Store: stored, Sink: sinks})
			c.mount(fleetv1connect.NewNotifierServiceHandler(service, c.server.Options(c.recorder)...))
		},
		work: []func(context.Context) error{s.settled(dispatcher.Run)},
	}, nil
}
