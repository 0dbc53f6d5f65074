// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// small draws from few values, so that collisions are common.
var small = rapid.StringMatching("[ab]{0,2}")

// policies are some that differ in one thing each, and a zero one.
func policies() []syncpolicy.Policy {
	return []syncpolicy.Policy{
		{},
		{Drift: syncpolicy.DriftReport},
		{Drift: syncpolicy.DriftOff},
		{Recreate: true},
		{Tests: &syncpolicy.Tests{Disabled: true}},
		{Windows: []syncpolicy.Window{{Schedule: "* * * * *", Duration: time.Hour}}},
	}
}

// optionsOf is the entry's options as text, behind all pointers.
func optionsOf(e plan.Entry) string {
	o := e.Apply()
	text := fmt.Sprint(o.Prunes(), o.CreatesNamespace())
	if o.Policy.Tests != nil {
		text += fmt.Sprint(*o.Policy.Tests)
	}
	steps, _ := json.Marshal(o.Render)
	text += string(steps)
	o.Prune, o.CreateNamespace, o.Policy.Tests, o.Render = nil, nil, nil, nil
	return text + fmt.Sprintf("%+v\n", o)
}

func drawSettings(t *rapid.T) syncpolicy.AgentSettings {
	return rapid.SampledFrom([]syncpolicy.AgentSettings{
		{}, {Workers: 1}, {LockDown: true}, {HealthRules: []syncpolicy.HealthRule{{Kind: "A"}}}, {HealthRules: []syncpolicy.HealthRule{{Kind: "B"}}},
	}).Draw(t, "settings")
}

func drawPart(t *rapid.T) plan.ClusterPart {
	held := rapid.SampledFrom([]time.Time{{}, time.UnixMicro(1), time.UnixMicro(2)}).Draw(t, "held")
	return plan.ClusterPart{RemovalsHeldSince: held, Settings: drawSettings(t), Facts: rapid.SampledFrom([]plan.Facts{
		{},
		{Labels: map[string]string{"a": "1"}},
		{Labels: map[string]string{"a": "2"}},
		{Annotations: map[string]string{"a": "1"}},
		{Labels: map[string]string{"a": "1", "b": "1"}},
		{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"a": "1"}},
	}).Draw(t, "facts")}
}

// stepsOf are some that differ in one thing each, and none.
func stepsOf() [][]renderstep.Step {
	helm := func(tag string) []renderstep.Step {
		return []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: map[string]any{"tag": tag}}}}
	}
	return [][]renderstep.Step{nil, {{}}, {{}, {}}, {{Path: "a"}}, {{Renderer: renderstep.Plain}}, helm("a"), helm("b")}
}

func drawService(t *rapid.T, name string) *catalog.Service {
	draw := func(label string) string { return small.Draw(t, label) }
	optional := rapid.Ptr(rapid.Bool(), true)
	s := &catalog.Service{
		Metadata: catalog.Metadata{Name: name, UID: draw("uid")}, SyncRequest: draw("sync"), ConfigDigest: draw("config"),
	}
	s.Spec = catalog.ServiceSpec{
		Cluster: "one", Options: &syncpolicy.Options{
			Namespace: draw("namespace"), Paused: rapid.Bool().Draw(t, "paused"),
			Renderer: rapid.SampledFrom([]syncpolicy.Renderer{syncpolicy.RenderAuto, syncpolicy.RenderPlain, syncpolicy.RenderKustomize}).Draw(t, "renderer"),
			Prune:    optional.Draw(t, "prune"), CreateNamespace: optional.Draw(t, "create"),
			HealthTimeout: time.Duration(rapid.IntRange(0, 2).Draw(t, "timeout")) * 10 * time.Minute,
			Policy:        rapid.SampledFrom(policies()).Draw(t, "policy"), DryRun: rapid.Bool().Draw(t, "dry run"),
			Render: rapid.SampledFrom(stepsOf()).Draw(t, "render"),
		},
	}
	for range rapid.IntRange(1, 3).Draw(t, "sources") {
		s.Spec.Sources = append(s.Spec.Sources, catalog.Source{
			Repository: draw("repository"), Path: draw("path"), Root: rapid.SampledFrom([]string{"", "."}).Draw(t, "root"),
			Chart: rapid.SampledFrom([]string{"", "web"}).Draw(t, "chart"), Mount: rapid.SampledFrom([]string{"", "a", "a/b"}).Draw(t, "mount"),
			Exclude: rapid.SampledFrom([]catalog.List{"", catalog.NewList([]string{"a"}), catalog.NewList([]string{"b"})}).Draw(t, "exclude"),
		})
	}
	return s
}

func drawInputs(t *rapid.T) []plan.Input {
	inputs := make([]plan.Input, rapid.IntRange(0, 4).Draw(t, "services"))
	for i := range inputs {
		inputs[i].Service = drawService(t, fmt.Sprintf("s%d", i))
		for range inputs[i].Service.Spec.Sources {
			var snapshot *catalog.Snapshot
			if rapid.IntRange(0, 4).Draw(t, "resolved") > 0 {
				snapshot = &catalog.Snapshot{
					Commit: small.Draw(t, "commit"), Version: small.Draw(t, "version"), Digest: digest.FromBytes([]byte(small.Draw(t, "content"))),
				}
			}
			inputs[i].Snapshots = append(inputs[i].Snapshots, snapshot)
		}
		inputs[i].IsWithheld = rapid.IntRange(0, 4).Draw(t, "withheld") == 0
	}
	return inputs
}

// content is the content of a plan, written down without hashing: the model of the differences that
// versions must show.
func content(p *plan.Plan) string {
	entries, text := make([]plan.Entry, len(p.Entries)), ""
	for i, entry := range p.Entries {
		entries[i] = *entry
		entries[i].Trigger, entries[i].SpecDigest, entries[i].Digest = nil, "", ""
		text += optionsOf(entries[i])
		entries[i].Options = nil // a pointer, which tells nothing
		entries[i].Bundles = slices.Clone(entries[i].Bundles)
		for j := range entries[i].Bundles {
			entries[i].Bundles[j].Commit, entries[i].Bundles[j].Version = "", ""
		}
	}
	return fmt.Sprintf("%q %#v %+v", p.Cluster, entries, p.Settings) + text
}

// places is the part of a version from unresolved sources.
func places(inputs []plan.Input) string {
	var text string
	for _, input := range inputs {
		for _, source := range input.Service.Spec.Sources {
			text += fmt.Sprintf("%q %q %q %q %q;", source.Repository, source.Normal().Path, source.Subpath(), source.Chart, source.Mount)
		}
	}
	return text
}

func TestVersionDependsOnContentOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inputs := drawInputs(t)
		p := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{Time: time.Unix(1, 0), Trigger: &catalog.Trigger{Traceparent: "x"}})
		shuffled := slices.Clone(inputs)
		for i, input := range shuffled {
			shuffled[i].Snapshots = slices.Clone(input.Snapshots)
			for j, snapshot := range input.Snapshots {
				if snapshot != nil {
					moved := *snapshot
					moved.Commit += "another commit"
					shuffled[i].Snapshots[j] = &moved
				}
			}
		}
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		q := plan.Compute("one", plan.ClusterPart{}, shuffled, plan.Cause{Time: time.Unix(2, 0), Trigger: &catalog.Trigger{Traceparent: "y"}})
		if p.Version != q.Version {
			t.Fatalf("order, commits, times or traces changed the version (-want +got):\n%s", cmp.Diff(content(p), content(q)))
		}
	})
}

func TestVersionChangesIffContentChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawInputs(t), drawInputs(t)
		p, q := plan.Compute("one", plan.ClusterPart{}, a, plan.Cause{}), plan.Compute("one", plan.ClusterPart{}, b, plan.Cause{})
		same := content(p) == content(q) && places(a) == places(b)
		if same != (p.Version == q.Version) {
			t.Fatalf("same content: %v, same version: %v\n%s\n%s", same, p.Version == q.Version, content(p), content(q))
		}
	})
}

func TestUnchangedEntriesKeepTraceAndTime(t *testing.T) {
	t.Parallel()
	service := func(name string) *catalog.Service {
		return &catalog.Service{Metadata: catalog.Metadata{Name: name, UID: name}, Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: name}}}}
	}
	snapshot := func(content string) []*catalog.Snapshot {
		return []*catalog.Snapshot{{Digest: digest.FromBytes([]byte(content))}}
	}
	inputs := []plan.Input{{Service: service("a"), Snapshots: snapshot("1")}, {Service: service("b"), Snapshots: snapshot("1")}}
	first := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{Time: time.Unix(1, 0), Trigger: &catalog.Trigger{Traceparent: "first"}})
	inputs[1].Snapshots = snapshot("2")
	second := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{Time: time.Unix(2, 0), Trigger: &catalog.Trigger{Traceparent: "second"}, Last: first})
	if got := []string{second.Entries[0].Trigger.Traceparent, second.Entries[1].Trigger.Traceparent}; cmp.Diff([]string{"first", "second"}, got) != "" {
		t.Errorf("got traces %v, want the new one where the content changed", got)
	}
	third := plan.Compute("one", plan.ClusterPart{}, inputs, plan.Cause{Time: time.Unix(3, 0), Trigger: &catalog.Trigger{Traceparent: "third"}, Last: second})
	if !third.ComputedAt.Equal(time.Unix(2, 0)) || third.Entries[1].Trigger.Traceparent != "second" {
		t.Errorf("got %v, %s, want time and trace of the plan that is still current", third.ComputedAt, third.Entries[1].Trigger.Traceparent)
	}
}

func TestFindsBundles(t *testing.T) {
	t.Parallel()
	d := digest.FromBytes([]byte("x"))
	service := &catalog.Service{Metadata: catalog.Metadata{Name: "a"}, Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "r", Path: "x/y", Root: "x"}}}}
	p := plan.Compute("one", plan.ClusterPart{}, []plan.Input{{Service: service, Snapshots: []*catalog.Snapshot{{Digest: d, Commit: "c"}}}}, plan.Cause{})
	got, ok := p.Bundle(d)
	want := plan.Bundle{Digest: d, Commit: "c", Source: catalog.Source{Repository: "r", Path: "x/y", Root: "x"}, Subpath: "y"}
	if !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, ok := p.Bundle(digest.FromBytes([]byte("y"))); ok {
		t.Error("found a bundle that is not there")
	}
}

// TestIndex compares the index with a search through all services, some of which differ from a common one by
// nothing of their own.
func TestIndex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		index, model := plan.NewIndex(), map[string]*catalog.Service{}
		commons := []*catalog.Service{drawService(t, "s0"), drawService(t, "s0"), drawService(t, "s1")}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			cluster := small.Draw(t, "cluster")
			common := rapid.SampledFrom(commons).Draw(t, "common")
			service := common.In(cluster, rapid.SampledFrom([]string{"9f0f7a3c-3a5b-5e0e-9c1e-2f1b6f0c9a01", "no UUID", "9F0F7A3C-3A5B-5E0E-9C1E-2F1B6F0C9A01"}).Draw(t, "uid"))
			if _, isThere := model[service.Name]; index.Has(service.Name) != isThere {
				t.Fatalf("service %s: got that it is there: %v", service.Name, !isThere)
			}
			uid, err := uuid.Parse(service.UID)
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				index.Remove(service.Name)
				delete(model, service.Name)
				continue
			case 2:
				service.SyncRequest = "a person's"
			case 3:
				service = drawService(t, service.Name)
				service.Spec.Cluster = cluster
			case 4:
				if err == nil && !index.Has(service.Name) {
					member := catalog.Member{Common: common, Cluster: cluster, UID: uid}
					index.Join(member)
					model[member.Name()] = member.Service()
				}
				continue
			}
			index.Put(service)
			model[service.Name] = service
		}
		checkIndex(t, index, model)
		checkServices(t, index, model)
	})
}

func checkServices(t *rapid.T, index *plan.Index, model map[string]*catalog.Service) {
	in := map[string]int{}
	for name, want := range model {
		in[want.Spec.Cluster]++
		if got := index.Service(name); !cmp.Equal(got, want) {
			t.Fatalf("service %s: got another one: %s", name, cmp.Diff(want, got))
		}
	}
	for cluster, count := range in {
		services := index.In(cluster)
		for _, got := range services {
			if want := model[got.Name]; !cmp.Equal(got, want) {
				t.Fatalf("service %s in %s: got another one: %s", got.Name, cluster, cmp.Diff(want, got))
			}
		}
		if len(services) != count {
			t.Fatalf("got %d services in %s, want %d", len(services), cluster, count)
		}
	}
}

func checkIndex(t *rapid.T, index *plan.Index, model map[string]*catalog.Service) {
	readers, clusters, byRepository := map[catalog.Source][]string{}, map[string][]string{}, map[string][]catalog.Source{}
	for name, service := range model {
		clusters[service.Spec.Cluster] = append(clusters[service.Spec.Cluster], name)
		for _, source := range service.Spec.Sources {
			source = source.Normal()
			if !slices.Contains(readers[source], name) {
				readers[source] = append(readers[source], name)
			}
			if !slices.Contains(byRepository[source.Repository], source) {
				byRepository[source.Repository] = append(byRepository[source.Repository], source)
			}
		}
	}
	if index.Len() != len(model) || len(index.Sources()) != len(readers) {
		t.Fatalf("got %d services and %d sources, want %d and %d", index.Len(), len(index.Sources()), len(model), len(readers))
	}
	for source, want := range readers {
		got := index.Readers(source)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || !index.Wanted(source) {
			t.Fatalf("readers of %v: got %v, want %v", source, got, want)
		}
	}
	for cluster, want := range clusters {
		slices.Sort(want)
		if got := index.Services(cluster); !slices.Equal(got, want) {
			t.Fatalf("services of %q: got %v, want %v", cluster, got, want)
		}
	}
	for repository, want := range byRepository {
		if got := index.SourcesOf(repository); len(got) != len(want) {
			t.Fatalf("sources of %q: got %v, want %v", repository, got, want)
		}
	}
}

// TestConfigurationCounts pins what a service without a configuration had before there were any:
// replicas of two versions must agree on its digests.
func TestConfigurationCounts(t *testing.T) {
	t.Parallel()
	entry := func(config string) *plan.Entry {
		service := &catalog.Service{Metadata: catalog.Metadata{Name: "a"}, Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "r"}}}, ConfigDigest: config}
		snapshots := []*catalog.Snapshot{{Digest: digest.FromBytes([]byte("x"))}}
		return plan.Compute("one", plan.ClusterPart{}, []plan.Input{{Service: service, Snapshots: snapshots}}, plan.Cause{}).Entries[0]
	}
	none, some := entry(""), entry("hmac-sha256:00")
	if some.ConfigDigest != "hmac-sha256:00" || some.Digest == none.Digest || some.SpecDigest != none.SpecDigest {
		t.Errorf("got %+v beside %+v, want another digest for the same spec", some, none)
	}
	const want = "sha256:4bddc004dc478f6ab5f2c609591a1c4974b7a9e1da6f0212020971501b66e74b"
	if none.Digest != want {
		t.Errorf("got %s, want %s", none.Digest, want)
	}
}
