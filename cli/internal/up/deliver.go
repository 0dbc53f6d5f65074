// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// deliveries are the bundles of the services in the plan.
type deliveries struct {
	*base

	hub      *hub
	client   *client.Client
	kube     *kube // nil if the clusters are the user's or kind's
	plan     plan
	clusters []report.Cluster
}

// run watches the services and reports every change until ctx ends. Once the outcome of the
// first delivery is known, and the clusters are reachable through the tunnel, it shows the summary.
func (d *deliveries) run(ctx context.Context) error {
	d.tell("leat up", "waiting for the first delivery")
	changes, reached := make(chan *fleetv1.WatchResponse), make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return d.client.Follow(ctx, &fleetv1.WatchRequest{}, func(change *fleetv1.WatchResponse) error { return pass(ctx, changes, change) })
	})
	group.Go(func() error {
		defer close(reached)
		if err := d.kube.awaitNodes(ctx); err != nil {
			return err
		}
		return (&prober{base: d.base, hub: d.hub, client: d.client}).awaitAll(ctx, d.clusters)
	})
	group.Go(func() error { return d.follow(ctx, changes, reached) })
	return group.Wait()
}

// follow reports the changes and, once, the summary.
func (d *deliveries) follow(ctx context.Context, changes <-chan *fleetv1.WatchResponse, reached <-chan struct{}) error {
	t := newTracker(d.planned())
	var deadline time.Time // begins when the clusters are reached: before that, files may be built for minutes
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for ready, complete := false, false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-changes:
			d.tellChange(t, change)
		case <-reached:
			reached, complete = nil, true
			deadline = time.Now().Add(d.Options.WaitTimeout)
		case <-ticker.C:
		}
		if now := time.Now(); !ready && complete && (t.judged(now) || now.After(deadline)) {
			ready = true
			d.report(report.Event{Kind: report.Ready, Summary: d.summary(ctx, t)})
		}
	}
}

// pass forwards a change.
func pass(ctx context.Context, changes chan<- *fleetv1.WatchResponse, change *fleetv1.WatchResponse) error {
	select {
	case changes <- change:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *deliveries) planned() []string {
	var names []string
	for _, object := range d.plan.objects {
		if kind, name := document.Identify(object); kind == "Service" {
			names = append(names, name)
		}
	}
	return names
}

func (d *deliveries) tellChange(t *tracker, change *fleetv1.WatchResponse) {
	object := change.GetDocument()
	if change.GetDeleted() {
		kind, name := document.Identify(object)
		t.forget(kind, name)
		d.tell("hub", strings.ToLower(kind)+"/"+name+" was deleted")
		return
	}
	if service := object.GetService(); service != nil {
		if state, changed := t.observe(time.Now(), service); changed {
			d.report(report.Event{Kind: report.Delivery, Service: &state})
		}
	}
	if repository := object.GetRepository(); repository != nil {
		if text, changed := t.observeRepository(repository); changed {
			d.tell("repository", repository.GetMetadata().GetName()+" "+text)
		}
	}
}

// linkTimeout bounds how long the summary waits for the address of the web UI.
const linkTimeout = 5 * time.Second

// link returns the address of the web UI; empty if there is none.
func (d *deliveries) link(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	link, err := client.LinkOfUI(ctx, d.client, d.hub.url())
	if err != nil {
		if !errors.Is(err, client.ErrNoUI) {
			d.tell("web UI", fmt.Sprintf("no address to sign in: %v", err))
		}
		return ""
	}
	return link.URL
}

func (d *deliveries) summary(ctx context.Context, t *tracker) *report.Summary {
	origins, kubectl := d.kube.shown()
	return &report.Summary{
		Server:     d.hub.url(),
		UI:         d.link(ctx),
		Tunnel:     d.hub.tunnelURL(),
		Repository: d.hub.repositoryURL(),
		Pushable:   d.Options.RepoURL == "",
		Config:     configPath(d.dir),
		CAFile:     d.hub.certs.CA,
		DataDir:    d.dir.Path(),
		Logs:       d.dir.Path("logs"),
		Namespace:  d.plan.namespace,
		SearchPath: searchPath(d.Params),
		Kubectl:    cmp.Or(kubectl, "kubectl"), // the control plane's own, because its version matches
		Kubernetes: origins,
		Clusters:   d.clusters,
		Services:   t.states(),
	}
}
