// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func TestNormalizeLeavesTheCause(t *testing.T) {
	t.Parallel()
	names := []string{"web", "berlin", "shop"}
	for message, want := range map[string]string{
		"":                                 "",
		"nothing to replace":               "nothing to replace",
		"pod web-7d9f8b6c5d-x2x4z of shop": "pod …-#-# of …",
		"pod web-0 is not ready":           "pod …-# is not ready",
		"commit 0123abc of main":           "commit # of main",
		"after 15 of 20 tries in 3.5s":     "after # of # tries in #.#s",
		"dial tcp 10.0.0.1:443: refused":   "dial tcp #.#.#.#:#: refused",
		"two\n\t spaces":                   "two spaces",
		"deadbeef is a word":               "deadbeef is a word",
		"Back-off pulling image":           "Back-off pulling image",
		"webhook of web":                   "webhook of …",
		"Dienst web läuft nicht":           "Dienst … läuft nicht",
		`Deployment "web" has 1 of 3`:      `Deployment "…" has # of #`,
		"apiVersion v1beta2":               "apiVersion v#beta#",
	} {
		if got := problems.Normalize(message, names...); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
	for _, message := range []string{"image nginx:alpine is missing", "image redis:alpine is missing"} {
		if problems.Normalize(message) != message {
			t.Errorf("%q lost what is wrong", message)
		}
	}
}

var began = time.Date(2026, 1, 2, 14, 2, 0, 0, time.UTC)

// failing returns a service that fails.
func failing(name, cluster, commit, message string, since time.Time) *find.Row {
	return &find.Row{
		Object: &catalog.Service{
			Metadata: catalog.Metadata{Name: name + "@" + cluster},
			Spec:     catalog.ServiceSpec{Cluster: cluster, Sources: []catalog.Source{{Repository: "demo"}}},
		},
		Phase: string(catalog.PhaseFailed), Problem: &catalog.Problem{Reason: reason.ApplyRejected, Message: message, Since: since},
		Sources: []catalog.Resolution{{Snapshot: &catalog.Snapshot{Commit: commit}}},
	}
}

func TestGroupsHaveOneCause(t *testing.T) {
	t.Parallel()
	rows := []*find.Row{
		{Object: &catalog.Repository{Metadata: catalog.Metadata{Name: "slow"}}, Phase: "STALE", Problem: &catalog.Problem{Reason: reason.UpstreamUnreachable, Message: "no answer", Since: began}},
		{Object: &catalog.Cluster{Metadata: catalog.Metadata{Name: "gone"}}, Phase: find.Disconnected, Since: began},
		{Object: &catalog.Cluster{Metadata: catalog.Metadata{Name: "there"}}, Phase: find.Connected},
		{Object: &catalog.Cluster{Metadata: catalog.Metadata{Name: "new"}}, Phase: find.NotJoined},
		{Object: &catalog.Service{Metadata: catalog.Metadata{Name: "fine@there"}}, Phase: string(catalog.PhaseHealthy)},
	}
	for i := range 12 {
		cluster := fmt.Sprintf("c%d", i%9)
		rows = append(rows, failing(fmt.Sprintf("app%d", i), cluster, "abc", fmt.Sprintf("pod app%d-%d of %s is refused", i, i, cluster), began.Add(time.Duration(i)*time.Minute)))
	}
	rows = append(rows, failing("late", "c1", "other", "pod late-1 of c1 is refused", began), failing("odd", "c1", "abc", "quota of c1 is used up", began))
	var g problems.Grouper
	used := uses("gone", "a@gone", "b@gone", "c@gone")
	used.Add(&catalog.Service{Metadata: catalog.Metadata{Name: "a@new"}, Spec: catalog.ServiceSpec{Cluster: "new"}})
	for _, row := range rows {
		for _, item := range problems.Of(row, used) {
			services := 0
			if item.Kind == catalog.KindCluster {
				services = 3
			}
			g.Add(item, services)
		}
	}
	groups, omitted := g.Groups(10)
	var got []string
	for _, group := range groups {
		got = append(got, fmt.Sprintf("%d %s %s %d/%d/%d", group.Severity, group.Kind, group.Reason, group.Objects, group.Clusters, group.Services))
	}
	want := strings.Join([]string{
		"4 Cluster AGENT_OFFLINE 1/1/3", "4 Service APPLY_REJECTED 12/9/0", "4 Service APPLY_REJECTED 1/1/0", "4 Service APPLY_REJECTED 1/1/0",
		"3 Repository UPSTREAM_UNREACHABLE 1/0/0", "2 Cluster  1/1/3",
	}, "\n")
	// The zero reason prints as its number.
	text := strings.ReplaceAll(strings.Join(got, "\n"), reason.Reason(0).String(), "")
	if text != strings.ReplaceAll(want, reason.Reason(0).String(), "") || omitted != 0 {
		t.Fatalf("got\n%s\nwant\n%s", text, want)
	}
	many := groups[1]
	if many.First != began || many.Last != began.Add(11*time.Minute) || many.Commit != "abc" || many.Repository != "demo" || len(many.Examples) != 10 {
		t.Errorf("got %+v", many)
	}
	if groups, omitted = g.Groups(2); len(groups) != 2 || omitted != 4 {
		t.Errorf("got %d groups, %d omitted", len(groups), omitted)
	}
}

// uses returns the uses of a cluster by services.
func uses(cluster string, services ...string) *problems.Uses {
	u := &problems.Uses{}
	for _, name := range services {
		u.Add(&catalog.Service{Metadata: catalog.Metadata{Name: name}, Spec: catalog.ServiceSpec{Cluster: cluster}})
	}
	return u
}

// TestSharedClustersWantALock finds clusters of several projects in which a service may have the
// agent's own rights.
func TestSharedClustersWantALock(t *testing.T) {
	t.Parallel()
	shared, single := uses("one", "a@one", "shop.b@one", "a2@one"), uses("one", "shop.a@one", "shop.b@one")
	elsewhere := uses("two", "a@two", "shop.b@two")
	for name, c := range map[string]struct {
		lock *catalog.ClusterLock
		uses *problems.Uses
		want bool
	}{
		"shared, without a lock":     {&catalog.ClusterLock{}, shared, true},
		"the cluster's own":          {&catalog.ClusterLock{Local: true}, shared, false},
		"the hub's":                  {&catalog.ClusterLock{Hub: true}, shared, false},
		"one project":                {&catalog.ClusterLock{}, single, false},
		"another cluster is shared":  {&catalog.ClusterLock{}, elsewhere, false},
		"nothing uses it":            {&catalog.ClusterLock{}, nil, false},
		"an agent that reports none": {nil, shared, false},
	} {
		row := &find.Row{Phase: find.Connected, Since: began, Object: &catalog.Cluster{
			Metadata: catalog.Metadata{Name: "one"}, Agent: catalog.Agent{Report: catalog.ClusterReport{Lock: c.lock}},
		}}
		items := problems.Of(row, c.uses)
		if !c.want && len(items) > 0 || c.want && (len(items) != 1 || items[0].Severity != problems.Warning || items[0].Reason != reason.ClusterUnlocked) {
			t.Errorf("%s: got %+v, want the problem: %v", name, items, c.want)
		}
	}
}

// TestSecMessagesDoNotGrowGroups sends messages that no normalization makes alike.
func TestSecMessagesDoNotGrowGroups(t *testing.T) {
	t.Parallel()
	var g problems.Grouper
	const n = 5000
	for i := range n {
		word := strings.NewReplacer("0", "g", "1", "h", "2", "i", "3", "j", "4", "k", "5", "l", "6", "m", "7", "n", "8", "o", "9", "p").Replace(fmt.Sprint(i))
		row := failing(fmt.Sprintf("app%d", i), "c", "abc", word+strings.Repeat("é", 1<<10), began)
		for _, item := range problems.Of(row, nil) {
			g.Add(item, 0)
		}
	}
	groups, omitted := g.Groups(n)
	counted := 0
	for _, group := range groups {
		counted += group.Objects
		if len(group.Message) > 410 {
			t.Fatalf("a message of %d bytes", len(group.Message))
		}
	}
	if len(groups) > 1001 || omitted != 0 || counted != n {
		t.Errorf("got %d groups of %d objects, want at most 1001 of %d", len(groups), counted, n)
	}
}

func TestSeverities(t *testing.T) {
	t.Parallel()
	service := func(phase catalog.Phase, why reason.Reason) *find.Row {
		row := failing("app", "one", "abc", "m", began)
		row.Phase, row.Problem.Reason = string(phase), why
		return row
	}
	drifted := &find.Row{Object: service("", 0).Object, Phase: string(catalog.PhaseHealthy), Report: &catalog.ServiceReport{Drift: make([]catalog.ObjectDrift, 2)}}
	held := &find.Row{Object: service("", 0).Object, Phase: string(catalog.PhaseHealthy), Sources: []catalog.Resolution{{Problem: &catalog.Problem{Reason: reason.UpstreamSignatureRejected}}}}
	restored := &find.Row{Object: &catalog.Cluster{Metadata: catalog.Metadata{Name: "one"}, RemovalsHeldSince: began}, Phase: find.Connected}
	for name, c := range map[string]struct {
		row  *find.Row
		want problems.Severity
	}{
		"failed":            {service(catalog.PhaseFailed, reason.ApplyRejected), problems.Failed},
		"degraded":          {service(catalog.PhaseDegraded, reason.HealthTimeout), problems.Degraded},
		"healthy and stale": {service(catalog.PhaseHealthy, reason.DependencyUnavailable), problems.Warning},
		"waits":             {service(catalog.PhasePending, reason.RepositoryNotReady), problems.Waiting},
		"window":            {service(catalog.PhasePending, reason.SyncWindowClosed), problems.Waiting},
		"guarded":           {service(catalog.PhaseSyncing, reason.PruneGuarded), problems.Warning},
		"drifted":           {drifted, problems.Warning},
		"held":              {held, problems.Warning},
		"restored":          {restored, problems.Warning},
		"new cluster":       {&find.Row{Object: &catalog.Cluster{}, Phase: find.NotJoined}, problems.Waiting},
		"never fetched":     {&find.Row{Object: &catalog.Repository{}, Phase: "FAILED", Problem: &catalog.Problem{Reason: reason.RepositoryNotFound}}, problems.Failed},
		"no reason":         {&find.Row{Object: service("", 0).Object, Phase: string(catalog.PhaseDegraded)}, problems.Degraded},
	} {
		items := problems.Of(c.row, nil)
		if len(items) != 1 || items[0].Severity != c.want || items[0].Message == "" && c.row.Problem == nil && name != "held" {
			t.Errorf("%s: got %+v, want severity %d", name, items, c.want)
		}
	}
	if items := problems.Of(&find.Row{Object: service("", 0).Object, Phase: string(catalog.PhaseHealthy)}, nil); items != nil {
		t.Errorf("a healthy service has %+v", items)
	}
}
