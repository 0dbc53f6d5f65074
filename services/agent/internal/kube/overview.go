// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/kube/watch"
	"github.com/leatdev/leat/services/agent/internal/overview"
)

// OverviewParams are the collaborators of Overview.
type OverviewParams struct {
	// Summary receives all changes.
	Summary *overview.Summary
	// Back is called when the API server answers again after a connection that ended early. It may
	// be another server by then. Calls are concurrent, and Back must return at once. Nil: no
	// notification.
	Back func()
	// Denied spaces attempts to watch a resource without the right to. Zero: 5 min doubling to 30
	// min.
	Denied backoff.Policy
}

// Overview watches nodes, pods and warnings, and updates the summary, until ctx is done; then it
// returns nil. A resource that the agent may not watch stays unknown, and is named in one warning
// of the log.
func (c *Client) Overview(ctx context.Context, p OverviewParams) error {
	p.Denied = cmp.Or(p.Denied, backoff.Policy{Initial: 5 * time.Minute, Max: 30 * time.Minute, Multiplier: 2})
	var group sync.WaitGroup
	defer group.Wait()
	for _, f := range c.followers(p) {
		group.Go(func() { f.run(ctx) })
	}
	return nil
}

// eventSilence is the bound for events, which most API servers do not keep in memory. Their
// bookmarks come as often as etcd reports its progress, by default every 10 min. The pings of
// HTTP/2 detect dead connections.
const eventSilence = 12 * time.Minute

// followers returns the watches that feed the overview.
//
// A pod's phase is not in its metadata, and a whole pod is about three times as large on the wire.
// So each phase has a watch of its own that receives only metadata. The API server selects by
// phase, so a pod that changes its phase moves from one watch to another. Only a pod's UID is kept,
// and the number of UIDs is the number of pods in a phase. In between a pod may be counted twice or
// not at all. The watches do not depend on each other, so each is correct in the end.
//
// Nodes are few, and their metadata does not hold their capacity and version, so they are read
// whole. Of the events only events of type Warning are requested.
func (c *Client) followers(p OverviewParams) []*follower {
	follow := func(source overview.Source, collection watch.Collection, warned *sync.Once, settings watch.Settings) *follower {
		settings.Denied = p.Denied
		return &follower{
			client: c, collection: collection, settings: settings, back: p.Back, summary: p.Summary, source: source,
			known: watch.NewKnownUIDs(), warned: warned,
		}
	}
	nodes := follow(overview.Nodes, coreCollection("nodes", "Node"), new(sync.Once), watch.Settings{})
	nodes.take = func(o *unstructured.Unstructured) { p.Summary.PutNode(string(o.GetUID()), nodeOf(o)) }
	nodes.drop = p.Summary.DropNode

	events := coreCollection("events", "Event")
	events.Fields = fields.OneTermEqualSelector("type", "Warning").String()
	warnings := follow(overview.Warnings, events, new(sync.Once), watch.Settings{Silence: eventSilence})
	warnings.take = func(o *unstructured.Unstructured) { p.Summary.PutWarning(string(o.GetUID()), warningOf(o)) }
	warnings.drop = p.Summary.DropWarning

	all, warned := []*follower{nodes, warnings}, new(sync.Once)
	for source, phase := range map[overview.Source]string{
		overview.PodsPending: "Pending", overview.PodsRunning: "Running", overview.PodsSucceeded: "Succeeded",
		overview.PodsFailed: "Failed", overview.PodsUnknown: "Unknown",
	} {
		pods := coreCollection("pods", "Pod")
		pods.Metadata, pods.Fields = true, fields.OneTermEqualSelector("status.phase", phase).String()
		all = append(all, follow(source, pods, warned, watch.Settings{}))
	}
	return all
}

func coreCollection(resource, kind string) watch.Collection {
	version := schema.GroupVersion{Version: "v1"}
	return watch.Collection{Resource: version.WithResource(resource), Kind: version.WithKind(kind)}
}

// follower feeds one source of the overview. It is a watch.Handler.
type follower struct {
	client     *Client
	collection watch.Collection
	settings   watch.Settings
	back       func()
	summary    *overview.Summary
	source     overview.Source
	take       func(*unstructured.Unstructured) // nil: objects are only counted
	drop       func(uid string)                 // nil: objects are only counted
	warned     *sync.Once                       // the log has a warning that this part of the overview may not be watched

	known  *watch.Known
	synced bool        // a list was complete
	warn   func(error) // logs that the resource may not be watched
}

// run follows until ctx is done.
func (f *follower) run(ctx context.Context) {
	f.warn = func(err error) {
		f.client.logger.WarnContext(ctx, "overview of the cluster omits a resource that the agent may not watch",
			slog.String("resource", f.collection.Resource.Resource), slog.Any("error", err))
	}
	watcher := watch.New(watch.Params{
		Server: f.client.server, Collection: f.collection, Handler: f, Known: f.known, Back: f.heard, Settings: f.settings,
		Logger: slog.New(lowered{f.client.logger.Handler()}).With(slog.String("overview", f.collection.Fields+" "+f.collection.Resource.Resource)),
	})
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if err := watcher.Run(ctx); err != nil { // such as an API server without pods
			f.Denied(err)
			_ = backoff.Wait(ctx, f.settings.Denied.Delay(attempt)) // the loop's condition sees the end of ctx
		}
	}
}

// Seen implements watch.Handler.
func (f *follower) Seen(o *unstructured.Unstructured) {
	if f.take != nil {
		f.take(o)
	}
	f.summary.Count(f.source, f.known.Len())
}

// Gone implements watch.Handler.
func (f *follower) Gone(o watch.Object, _ string) {
	if f.drop != nil {
		f.drop(o.UID)
	}
	f.summary.Count(f.source, f.known.Len())
}

// Synced implements watch.Handler.
func (f *follower) Synced() {
	f.synced = true
	f.summary.Count(f.source, f.known.Len())
	f.summary.SetKnown(f.source, true)
}

// heard is watch.Params.Back. The previous state is valid again, because the watch continued where
// it was.
func (f *follower) heard() {
	f.summary.SetKnown(f.source, f.synced)
	if f.back != nil {
		f.back()
	}
}

// Denied implements watch.Handler.
func (f *follower) Denied(err error) {
	f.summary.SetKnown(f.source, false)
	f.warned.Do(func() { f.warn(err) })
}

// lowered logs everything at level Debug: the watches of services report the API server's failures,
// and the follower reports missing rights.
type lowered struct{ slog.Handler }

// Enabled implements slog.Handler.
func (l lowered) Enabled(ctx context.Context, _ slog.Level) bool {
	return l.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (l lowered) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l lowered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lowered{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l lowered) WithGroup(name string) slog.Handler { return lowered{l.Handler.WithGroup(name)} }
