// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/hubroutes"
)

// RepoName is tested on its own.
var RepoName = repoName

// CheckSystem is tested for systems that the test does not run on.
var CheckSystem = checkSystem

// Plan is a plan and what it would change.
type Plan struct {
	Clusters  []string
	Namespace string
	Objects   []*fleetv1.Document
	Changes   func(existing []*fleetv1.Document) (apply, remove []*fleetv1.Document)
}

// NewPlan returns a plan.
func NewPlan(o Options, repoURL string) (Plan, error) {
	p, err := newPlan(o, repoURL)
	return Plan{p.clusters, p.namespace, p.objects, p.changes}, err
}

// Listen takes ports and returns their addresses.
func Listen(ctx context.Context, address string) (addresses []net.Addr, closeAll func() error, err error) {
	l, err := listen(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	return []net.Addr{l.front.Addr(), l.tunnel.Addr(), l.gitcache.Addr(), l.git.Addr()}, l.Close, nil
}

// Tracker is an exported tracker.
type Tracker struct{ t *tracker }

// NewTracker returns a tracker of the named services.
func NewTracker(planned ...string) Tracker { return Tracker{newTracker(planned)} }

// Observe notes a state and reports whether it is new.
func (t Tracker) Observe(now time.Time, service *fleetv1.Service) (report.Service, bool) {
	return t.t.observe(now, service)
}

// Judged reports whether the outcome of all services is known.
func (t Tracker) Judged(now time.Time) bool { return t.t.judged(now) }

// NewFront returns the front of services at these URLs.
func NewFront(urls map[hubroutes.Service]string, roots *x509.CertPool) (http.Handler, error) {
	return newFront(urls, roots, slog.New(slog.DiscardHandler))
}
