// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	gocmp "github.com/google/go-cmp/cmp"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// watcher is a person at one replica, with a stream of what they see.
type watcher struct {
	person, replica string
	client          fleetv1connect.FleetServiceClient

	mu   sync.Mutex
	seen map[string]bool
	// wrong are events that must not have come.
	wrong []string
}

// kindsByDocument are the model's kinds of the objects in streams.
var kindsByDocument = map[string]string{
	"Cluster": "clusters", "Project": "projects", "Repository": "repositories", "Role": "roles", "Service": "services", "User": "users",
}

// watch follows the fleet until ctx ends. A stream that the hub ends begins again from nothing.
func (w *watcher) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		w.seen = map[string]bool{}
		w.mu.Unlock()
		stream, err := w.client.Watch(ctx, &fleetv1.WatchRequest{})
		if err != nil {
			continue
		}
		for stream.Receive() {
			w.take(stream.Msg())
		}
		_ = stream.Close()
	}
}

func (w *watcher) take(event *fleetv1.WatchResponse) {
	object := fleetdoc.Object(event.GetDocument())
	if object == nil {
		return
	}
	kind, ok := kindsByDocument[string(object.Descriptor().Name())]
	if !ok {
		return
	}
	metadata, _ := object.Get(object.Descriptor().Fields().ByName("metadata")).Message().Interface().(*typev1.Metadata)
	key := kind + " " + nameIn(metadata)
	if service, ok := object.Interface().(*fleetv1.Service); ok {
		key = kind + " " + nameOf(service)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !event.GetDeleted():
		w.seen[key] = true
	case w.seen[key]:
		delete(w.seen, key)
	default:
		w.wrong = append(w.wrong, "deletion of "+key+", which was never shown")
	}
}

// nameIn returns the name of an object as references have it.
func nameIn(m *typev1.Metadata) string {
	if m.GetProject() == "" {
		return m.GetName()
	}
	return m.GetProject() + "/" + m.GetName()
}

// watched returns what the stream shows, and what was wrong in it.
func (w *watcher) watched() (all, wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.seen {
		all = append(all, key)
	}
	slices.Sort(all)
	return all, w.wrong
}

// listed returns what lists hold, in pages of two, with the counts of clusters.
func (w *watcher) listed(ctx context.Context) (all []string, err error) {
	page := &typev1.Page{Size: 2}
	each := func(kind string, list func() (names []string, next string, err error)) {
		for page.Token = ""; err == nil; {
			var names []string
			var next string
			if names, next, err = list(); err != nil {
				return
			}
			for _, name := range names {
				all = append(all, kind+" "+name)
			}
			if len(names) == 0 && next != "" {
				err = fmt.Errorf("an empty page of %s is followed by another one", kind)
			}
			if page.Token = next; next == "" {
				return
			}
		}
	}
	each("clusters", func() (names []string, next string, err error) {
		res, err := fleetcalls.List[*fleetv1.Cluster](ctx, w.client, &fleetv1.ListRequest{Page: page})
		for _, c := range res.Objects {
			names = append(names, fmt.Sprintf("%s with %d", nameIn(c.GetMetadata()), c.GetStatus().GetServices()))
		}
		return names, res.NextPageToken, err
	})
	each("projects", func() (names []string, next string, err error) {
		res, err := fleetcalls.List[*fleetv1.Project](ctx, w.client, &fleetv1.ListRequest{Page: page})
		for _, o := range res.Objects {
			names = append(names, nameIn(o.GetMetadata()))
		}
		return names, res.NextPageToken, err
	})
	each("repositories", func() (names []string, next string, err error) {
		res, err := fleetcalls.List[*fleetv1.Repository](ctx, w.client, &fleetv1.ListRequest{Page: page})
		for _, o := range res.Objects {
			names = append(names, nameIn(o.GetMetadata()))
		}
		return names, res.NextPageToken, err
	})
	each("roles", func() (names []string, next string, err error) {
		res, err := fleetcalls.List[*fleetv1.Role](ctx, w.client, &fleetv1.ListRequest{Page: page})
		for _, o := range res.Objects {
			names = append(names, nameIn(o.GetMetadata()))
		}
		return names, res.NextPageToken, err
	})
	each("services", func() (names []string, next string, err error) {
		res, err := fleetcalls.List[*fleetv1.Service](ctx, w.client, &fleetv1.ListRequest{Page: page})
		for _, o := range res.Objects {
			names = append(names, nameOf(o))
		}
		return names, res.NextPageToken, err
	})
	slices.Sort(all)
	return all, err
}

// wantListed is the result of listed if the hub does as the model.
func (m *ruleModel) wantListed(person string) []string {
	all := []string{}
	for _, key := range m.visible(person, "list") {
		kind, name, _ := strings.Cut(key, " ")
		switch kind {
		case "users":
			continue // users have lists of their own, which also show the person
		case "clusters":
			key = fmt.Sprintf("%s with %d", key, m.servicesOn(person, name))
		}
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// tries returns what the person can do: which services they get and change, and which clusters they
// change. Nothing is changed by it.
func (w *watcher) tries(ctx context.Context, t *testing.T, m *ruleModel) {
	t.Helper()
	check := func(what string, err error, want bool) {
		t.Helper()
		if code := connect.CodeOf(err); (err == nil) != want || err != nil && code != connect.CodeNotFound && code != connect.CodePermissionDenied && code != connect.CodeFailedPrecondition {
			t.Errorf("%s by %s at %s: got %v, want it to be allowed: %t", what, w.person, w.replica, err, want)
		}
	}
	for _, short := range []string{"app", "web", "shop/app", "shop/far"} {
		var seen []string
		for _, cluster := range []string{"one", "two", "shop/own"} {
			name := onCluster(short, cluster)
			_, exists := m.services[name]
			isSeen := exists && m.sees(w.person, "get", thing{"services", name})
			if isSeen {
				seen = append(seen, name)
			}
			_, err := fleetcalls.Get[*fleetv1.Service](ctx, w.client, name)
			check("get of "+name, err, isSeen)
		}
		res, err := fleetcalls.Get[*fleetv1.Service](ctx, w.client, short)
		if len(seen) != 1 {
			wantReason(t, err, map[bool]string{true: "NOT_FOUND", false: "NAME_AMBIGUOUS"}[len(seen) == 0])
			continue
		}
		name := seen[0]
		check("get of "+short, err, true)
		if got := nameOf(res); got != name {
			t.Errorf("get of %s by %s at %s: got %s, want %s", short, w.person, w.replica, got, name)
		}
		service := res
		service.Metadata.Labels, service.Metadata.ResourceVersion = map[string]string{"tried": "yes"}, 0
		_, err = w.client.Apply(ctx, &fleetv1.ApplyRequest{DryRun: true, Documents: []*fleetv1.Document{{Object: &fleetv1.Document_Service{Service: service}}}})
		check("change of "+name, err, m.may(w.person, "update", thing{"services", name}))
	}
	for _, name := range m.names("clusters") {
		document := placed(name, clusterDocument)
		document.GetCluster().Metadata.Labels, document.GetCluster().Spec.Description = m.clusters[name], "tried"
		_, err := w.client.Apply(ctx, &fleetv1.ApplyRequest{DryRun: true, Documents: []*fleetv1.Document{document}})
		check("change of "+name, err, m.may(w.person, "update", thing{"clusters", name}))
	}
}

// settle waits until lists and stream are as in the model.
func (w *watcher) settle(ctx context.Context, t *testing.T, m *ruleModel, history []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	wantListed, wantWatched := m.wantListed(w.person), m.visible(w.person, "watch")
	for {
		var got []string
		var err error
		watched, wrong := w.watched()
		if len(wrong) > 0 {
			t.Fatalf("%s at %s watched %v after\n%s", w.person, w.replica, wrong, strings.Join(history, "\n"))
		}
		if slices.Equal(watched, wantWatched) {
			if got, err = w.listed(ctx); err == nil && slices.Equal(got, wantListed) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s at %s (%v) lists (-model +hub)\n%s\nand watches\n%s\nafter\n%s", w.person, w.replica, err,
				gocmp.Diff(wantListed, got), gocmp.Diff(wantWatched, watched), strings.Join(history, "\n"))
		}
	}
}

// remove deletes an object.
func remove(ctx context.Context, client fleetv1connect.FleetServiceClient, o thing) (err error) {
	switch o.kind {
	case "services":
		err = fleetcalls.Delete[*fleetv1.Service](ctx, client, o.name)
	case "clusters":
		err = fleetcalls.Delete[*fleetv1.Cluster](ctx, client, o.name)
	case "repositories":
		err = fleetcalls.Delete[*fleetv1.Repository](ctx, client, o.name)
	default:
		err = fleetcalls.Delete[*fleetv1.AccessBinding](ctx, client, o.name)
	}
	return err
}

// TestRightsFollowTheModel makes random edits at two replicas of one hub. After each, the lists,
// counts, streams and permissions of three people equal the ones of a model that does not share the
// hub's code. A sequence begins where the last one ended. LEAT_FAULT_LONG=1 runs 2000 sequences:
// sequences of eight seeds, each at a hub of its own.
func TestRightsFollowTheModel(t *testing.T) {
	t.Parallel()
	const seed = 17
	if os.Getenv("LEAT_FAULT_LONG") == "" {
		followModel(t, seed, 20)
		return
	}
	for i := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			t.Parallel()
			followModel(t, seed+i, 250)
		})
	}
}

// followModel makes the edits of one seed at a hub of its own, and compares it with the model after each.
func followModel(t *testing.T, seed uint64, sequences int) {
	t.Helper()
	const edits, reported = 3, 50
	poll := func(c *distributor.Config) { c.Intervals.CatalogPoll = 20 * time.Millisecond }
	first := startHub(t, poll)
	second := startReplica(t, first.git, poll, func(c *distributor.Config) { c.DatabaseURL = first.cfg.DatabaseURL })
	replicas := []*hub{first, second}
	admins := []fleetv1connect.FleetServiceClient{first.fleet(t, adminToken), second.fleet(t, adminToken)}

	m := newRuleModel()
	c := &crowd{hub: first, admin: admins[0]}
	c.apply(t, projectDocuments("shop")...)
	m.projects["shop"], m.users["admin"] = true, nil
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var watchers []*watcher
	for _, person := range []string{"ada", "bob", "cyd"} {
		token, _ := c.join(t, person)
		m.users[person] = nil
		if person == "bob" { // holds an access token; its groups are the user's present ones, not of its issue
			res, err := c.fleet(t, token).CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{})
			if err != nil {
				t.Fatal(err)
			}
			token = res.GetAccessToken()
		}
		for i, replica := range replicas {
			w := &watcher{person: person, replica: fmt.Sprint("replica ", i), client: replica.fleet(t, token)}
			watchers = append(watchers, w)
			group.Go(func() { w.watch(ctx) })
		}
	}
	r := rand.New(rand.NewPCG(seed, seed))
	taken := 0
	for sequence := range sequences {
		if sequence%reported == 0 {
			t.Logf("%d of %d sequences, %d edits taken", sequence, sequences, taken)
		}
		var history []string
		for range edits {
			edit, at := nextEdit(r), r.IntN(len(admins))
			var err error
			if edit.document != nil {
				_, err = admins[at].Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{edit.document}})
			} else {
				err = remove(ctx, admins[at], edit.deletes)
			}
			switch connect.CodeOf(err) {
			case connect.CodeFailedPrecondition, connect.CodeNotFound, connect.CodeInvalidArgument: // as where others name it
			default:
				if err != nil {
					t.Fatalf("%s: %v", edit.what, err)
				}
				edit.apply(m)
				taken++
			}
			history = append(history, fmt.Sprintf("%d at %d: %s (%v)", sequence, at, edit.what, err))
			for _, w := range watchers {
				w.settle(ctx, t, m, history)
			}
			watchers[r.IntN(len(watchers))].tries(ctx, t, m)
			if t.Failed() {
				t.Fatalf("after\n%s", strings.Join(history, "\n"))
			}
		}
	}
	if taken < sequences*edits/3 {
		t.Errorf("the hub took %d of %d edits; the sequences try too little", taken, sequences*edits)
	}
}
