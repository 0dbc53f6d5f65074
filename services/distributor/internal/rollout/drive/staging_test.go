// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// yard is a fleet of services under one policy, with the store of its rollouts. Agents run what they are
// given, and are healthy with it unless the namespace is bad.
type yard struct {
	drive.Store

	t        *testing.T
	now      time.Time
	work     *drive.Work
	logger   *slog.Logger
	policy   *catalog.RolloutPolicy
	services []*catalog.Service
	admitted map[string]catalog.Admission
	reports  map[string]*catalog.ServiceReport
	// contents are the contents of sources.
	contents map[catalog.Source]catalog.HeldSource
	bad      string
	// revision is the revision of the latest edit, and authors are who edited.
	revision int64
	authors  []catalog.Author
	// configs are the names of the configurations of services, by uid; none: catalog.NoConfig. A
	// service whose uid is in waiting waits for a value. kept are the names of stored ones, without
	// the ones that cannot be stored.
	configs map[string]string
	waiting map[string]bool
	kept    map[string]bool
	lacking map[string]bool
	// badConfig is the configuration with which agents fail.
	badConfig string
	// isBehind is true while services do not have the latest edits yet.
	isBehind bool
	record   *drive.Record
	log      drive.Log
	// isDiffed makes looks report what has changed since the one before, which saw last by uid.
	isDiffed bool
	last     map[string]drive.Seen
}

// newYard returns a yard of services a, b and c, whose agents run the commit c1 of app. The canary is a.
func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{
		t: t, now: time.Unix(1e9, 0).UTC(), logger: slog.New(slog.DiscardHandler), admitted: map[string]catalog.Admission{}, reports: map[string]*catalog.ServiceReport{},
		configs: map[string]string{}, waiting: map[string]bool{}, kept: map[string]bool{}, lacking: map[string]bool{},
		contents: map[catalog.Source]catalog.HeldSource{app: content(app, "c1"), extra: content(extra, "c1")},
		policy: &catalog.RolloutPolicy{Metadata: catalog.Metadata{UID: "waves", Name: "waves"}, Spec: catalog.RolloutPolicySpec{Strategy: rollout.Strategy{
			Waves:          []rollout.Wave{{Name: "canary", Clusters: []string{"a"}, Approval: &rollout.Approval{}}},
			MaxUnavailable: rollout.Share{Count: 3}, FailAfter: time.Second,
		}}},
	}
	for _, name := range []string{"a", "b", "c"} {
		y.add(name, "")
	}
	y.lead()
	y.rounds(4)
	return y
}

// add adds a service, derived from a global service if that is named.
func (y *yard) add(name, global string) {
	s := &catalog.Service{Metadata: catalog.Metadata{UID: name, Name: name}, Spec: catalog.ServiceSpec{Cluster: name, Sources: []catalog.Source{app}}}
	if global != "" {
		s.Derived = &catalog.Derivation{Global: global, GlobalUID: global}
	}
	y.services = append(y.services, s)
}

// lead begins another term, with nothing in memory.
func (y *yard) lead() {
	metrics, err := drive.NewMetrics(noop.Meter{})
	if err != nil {
		y.t.Fatal(err)
	}
	y.work = drive.NewWork(drive.Params{Store: y, Fleet: y, Metrics: metrics, Logger: y.logger}, 1)
}

func (*yard) Refresh(context.Context) error { return nil }

func (y *yard) Heads(context.Context) ([]drive.Head, error) {
	if y.record == nil {
		return nil, nil
	}
	return []drive.Head{{ID: y.record.ID, PolicyUID: y.record.PolicyUID, Version: y.record.Version}}, nil
}

// Record returns the rollout from its stored form.
func (y *yard) Record(context.Context, string) (*drive.Record, error) {
	next := *y.record
	text, err := json.Marshal(y.record.Start)
	if err != nil {
		return nil, err
	}
	next.Start = drive.Start{}
	err = json.Unmarshal(text, &next.Start)
	next.Start.Members = nil // as the store reads it
	return &next, err
}

func (*yard) ClusterOf(*catalog.Service) *catalog.Cluster { return nil }

func (y *yard) KeepConfigs(_ context.Context, _ int64, wishes []drive.ConfigWish) (lacking []string, err error) {
	for _, wish := range wishes {
		switch {
		case wish.Name != y.config(wish.Service.UID):
			y.t.Errorf("%s has the configuration %s, and %s is to be kept", wish.Service.Name, y.config(wish.Service.UID), wish.Name)
		case y.lacking[wish.Name]:
			lacking = append(lacking, wish.Name)
		default:
			y.kept[wish.Name] = true
		}
	}
	return lacking, nil
}

// ChangedKeys has a configuration consist of one key, which is named as it is.
func (*yard) ChangedKeys(_ context.Context, pairs [][2]string) (keys []string, err error) {
	for _, pair := range pairs {
		keys = append(keys, pair[1])
	}
	return keys, nil
}

// config returns the name of a service's configuration.
func (y *yard) config(uid string) string {
	if name, ok := y.configs[uid]; ok {
		return name
	}
	return catalog.NoConfig
}

// configure gives all services a configuration.
func (y *yard) configure(name string) {
	for _, service := range y.services {
		y.configs[service.UID] = name
	}
}

// wantConfigs compares the configurations that services are held at.
func (y *yard) wantConfigs(when string, want ...string) {
	y.t.Helper()
	var got []string
	for _, service := range y.services {
		got = append(got, y.admitted[service.UID].Config)
	}
	if !slices.Equal(got, want) {
		y.t.Errorf("%s: got the configurations %q, want %q", when, got, want)
	}
}

func (y *yard) Save(_ context.Context, _ int64, step drive.Step) error {
	var named []string
	if step.Record != nil {
		named = slices.AppendSeq(named, maps.Values(step.Record.Start.ConfigOf))
	}
	for _, a := range step.Admissions {
		named = append(named, a.Config)
	}
	for _, name := range named {
		if name != "" && name != catalog.NoConfig && !y.kept[name] {
			y.t.Errorf("a step names the configuration %s, which is not stored", name)
		}
	}
	for _, a := range step.Admissions {
		if a.Pin = y.admitted[a.ServiceUID].Pin; a.Content == nil && a.Pin == nil {
			delete(y.admitted, a.ServiceUID)
			continue
		}
		a.Config = cmp.Or(a.Config, y.admitted[a.ServiceUID].Config) // as the store does
		y.admitted[a.ServiceUID] = a
	}
	if step.Record == nil {
		return nil
	}
	if y.record == nil || y.record.ID != step.Record.ID {
		y.log = drive.Log{}
	}
	begun := step.Record.Start.Members
	if step.Record.Version > 0 {
		begun = y.record.Start.Members
	}
	y.record = new(*step.Record)
	y.record.Start.Members = begun
	y.record.Version++
	y.log.Record, y.log.Events, y.log.Decisions = *y.record, append(y.log.Events, step.Events...), append(y.log.Decisions, step.Decisions...)
	return nil
}

// Authors returns those after a revision.
func (y *yard) Authors(_ context.Context, since int64) (after []catalog.Author, _ error) {
	for _, author := range y.authors {
		if author.Revision > since {
			after = append(after, author)
		}
	}
	return after, nil
}

func (*yard) IsNeeded() bool    { return true }
func (*yard) Still(look func()) { look() }

func (y *yard) Revision() int64 { return y.revision }

// Layers has the configurations of all services be made of one set.
func (*yard) Layers(services []*catalog.Service) []string {
	if len(services) == 0 {
		return nil
	}
	return []string{"uid-set"}
}

func (y *yard) Behind() func(*catalog.Service) bool {
	return func(*catalog.Service) bool { return y.isBehind }
}

func (y *yard) Watch() drive.Watch {
	y.last = nil
	return y
}

// differ returns what has changed since the last look; nil at the first.
func (y *yard) differ(members []drive.Seen) map[string]drive.Changes {
	last := y.last
	y.last = map[string]drive.Seen{}
	var changes drive.Changes
	for i, m := range members {
		y.last[m.Service.UID] = m
		if !reflect.DeepEqual(last[m.Service.UID], m) {
			changes.Seen = append(changes.Seen, i)
		}
	}
	for uid := range last {
		if _, ok := y.last[uid]; !ok {
			changes.Gone = append(changes.Gone, uid)
		}
	}
	if last == nil || !y.isDiffed {
		return nil
	}
	return map[string]drive.Changes{"waves": changes}
}

func (y *yard) Look([]catalog.Key, bool) drive.Sight {
	sight := drive.Sight{Policies: []*catalog.RolloutPolicy{y.policy}, Members: map[string][]drive.Seen{}}
	for _, service := range y.services {
		seen := drive.Seen{
			Service: service, Spec: service.Spec.Staged(), Report: y.reports[service.UID], IsOnline: !service.Spec.Wanted().Paused,
			Config: y.config(service.UID), ConfigWaits: y.waiting[service.UID], HasSets: y.config(service.UID) != catalog.NoConfig,
		}
		sources := slices.Clone(service.Spec.Sources)
		if held, ok := y.admitted[service.UID]; ok {
			seen.Held, seen.ConfigDigest = &held, held.Config
			if held.Spec != nil {
				sources = append(sources, held.Spec.Sources...)
			}
		}
		for _, source := range sources {
			live, ok := y.contents[source.Normal()]
			if ok && !slices.Contains(seen.Live, live) {
				seen.Live = append(seen.Live, live)
			}
		}
		sight.Members["waves"] = append(sight.Members["waves"], seen)
	}
	sight.Changes = y.differ(sight.Members["waves"])
	return sight
}

// planned returns what a service is planned with. ok is false if it is withheld.
func (y *yard) planned(service *catalog.Service) (spec catalog.ServiceSpec, digests []string, ok bool) {
	held, ok := y.admitted[service.UID]
	if !ok {
		return spec, nil, false
	}
	for _, h := range held.Content {
		digests = append(digests, h.Snapshot.Digest.String())
	}
	return held.SpecFor(service.Spec), digests, true
}

// rounds has agents report on their plans, and the leader decide, so many times.
func (y *yard) rounds(n int) {
	y.t.Helper()
	for range n {
		for _, service := range y.services {
			spec, digests, ok := y.planned(service)
			if !ok {
				if y.reports[service.UID] == nil {
					y.reports[service.UID] = &catalog.ServiceReport{}
				}
				continue
			}
			report := &catalog.ServiceReport{Phase: catalog.PhaseHealthy, ObservedSpecDigest: plan.SpecDigest(spec, nil), AppliedDigests: digests, AppliedConfigDigest: y.admitted[service.UID].Config}
			if y.bad != "" && spec.Wanted().Namespace == y.bad || y.badConfig != "" && y.admitted[service.UID].Config == y.badConfig {
				report.Phase = catalog.PhaseDegraded
			}
			y.reports[service.UID] = report
		}
		y.now = y.now.Add(2 * time.Second)
		if _, err := y.work.Round(y.t.Context(), y.now, true); err != nil {
			y.t.Fatal(err)
		}
		if diff := y.log.Replay(); y.record != nil && diff != "" {
			y.t.Errorf("replay: %s", diff)
		}
	}
}

// tell has a person steer the rollout.
func (y *yard) tell(e rollout.Event) {
	y.t.Helper()
	e.At, e.Person = y.now, cmp.Or(e.Person, "admin")
	step, err := y.record.Follow(e)
	if err != nil {
		y.t.Fatal(err)
	}
	if err := y.Save(y.t.Context(), 1, step); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) approve() {
	y.t.Helper()
	y.tell(rollout.Event{Kind: rollout.Approve, Wave: "canary"})
}

// edit changes the specs of all services.
func (y *yard) edit(change func(*catalog.ServiceSpec)) {
	for i, service := range y.services {
		next := *service
		next.Spec.Sources = slices.Clone(service.Spec.Sources)
		change(&next.Spec)
		y.services[i] = &next
	}
}

func namespace(name string) func(*catalog.ServiceSpec) {
	return func(s *catalog.ServiceSpec) {
		options := s.Wanted()
		options.Namespace = name
		s.Options = &options
	}
}

// want compares what services are planned with, as text.
func (y *yard) want(when string, want ...string) {
	y.t.Helper()
	var got []string
	for _, service := range y.services {
		spec, _, ok := y.planned(service)
		text := service.Name + " waits"
		if ok {
			text = fmt.Sprintf("%s %s %s %s", service.Name, spec.Wanted().Namespace, spec.Sources[0].Path, y.admitted[service.UID].Content[0].Snapshot.Commit)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		y.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// TestSecEditsAreStaged edits the specs of all services at once. The canary alone has the edit
// until a person approves it.
func TestSecEditsAreStaged(t *testing.T) {
	t.Parallel()
	chart := func(s *catalog.ServiceSpec) { s.Sources[0].Path, s.Sources[0].Chart = "", "web" }
	for name, edit := range map[string]func(*catalog.ServiceSpec){
		"ref":   func(s *catalog.ServiceSpec) { s.Sources[0].Ref.Value = "next" },
		"path":  func(s *catalog.ServiceSpec) { s.Sources[0].Path = "extra" },
		"mount": func(s *catalog.ServiceSpec) { s.Sources[0].Mount = "below" },
		"chart": chart,
		"version": func(s *catalog.ServiceSpec) {
			chart(s)
			s.Sources[0].Ref = catalog.Ref{Kind: catalog.RefTag, Value: "2.0.0"}
		},
		"source":    func(s *catalog.ServiceSpec) { more := extra; more.Mount = "more"; s.Sources = append(s.Sources, more) },
		"namespace": namespace("next"),
		"policy": func(s *catalog.ServiceSpec) {
			s.Options = &syncpolicy.Options{Policy: syncpolicy.Policy{Recreate: true}}
		},
	} {
		y := newYard(t)
		before := y.services[0].Spec.Staged().Digest
		y.edit(edit)
		after := y.services[0].Spec.Staged().Digest
		for _, source := range y.services[0].Spec.Sources {
			if normal := source.Normal(); y.contents[normal] == (catalog.HeldSource{}) {
				y.contents[normal] = catalog.HeldSource{Source: normal, Snapshot: content(app, "c1").Snapshot}
			}
		}
		has := func() (specs []string) {
			for _, service := range y.services {
				specs = append(specs, y.admitted[service.UID].Spec.Digest)
			}
			return specs
		}
		if y.rounds(6); !slices.Equal(has(), []string{after, before, before}) {
			t.Errorf("%s: the edit is not with the canary alone", name)
		}
		y.lead() // another replica continues
		y.approve()
		if y.rounds(6); !slices.Equal(has(), []string{after, after, after}) || y.record.Run.State != rollout.Completed {
			t.Errorf("%s: somebody approved the edit, and it is not with all: %s", name, y.record.Run.State)
		}
	}
}

// TestEditsWaitTheirTurn edits specs while a commit is rolled out, takes the edit back, and repeats it.
func TestEditsWaitTheirTurn(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.want("at first", "a  app c1", "b  app c1", "c  app c1")
	y.contents[app] = content(app, "c2")
	y.rounds(6)
	y.want("a commit", "a  app c2", "b  app c1", "c  app c1")
	y.edit(namespace("next"))
	y.rounds(6)
	y.want("an edit while the commit is under way", "a  app c2", "b  app c1", "c  app c1")
	y.approve()
	y.rounds(12)
	y.want("the edit after the commit", "a next app c2", "b  app c2", "c  app c2")
	y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.Rollback})
	y.rounds(12)
	y.want("the edit was rolled back", "a  app c2", "b  app c2", "c  app c2")
	y.contents[app] = content(app, "c3")
	y.rounds(6)
	y.want("a commit with the spec that all have", "a  app c3", "b  app c2", "c  app c2")
	y.approve()
	y.rounds(12)
	y.want("the edit is not tried again", "a  app c3", "b  app c3", "c  app c3")
	y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.Retry})
	y.rounds(12)
	y.want("it was retried", "a next app c3", "b  app c3", "c  app c3")
}

// TestNewerEditReplaces has a policy whose newest change comes first. Members go back to their
// content from before the rollout that was replaced.
func TestNewerEditReplaces(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.policy.Spec.Strategy.Replaces = true
	y.edit(namespace("first"))
	y.rounds(6)
	y.edit(namespace("second"))
	y.rounds(8)
	y.want("the second edit", "a second app c1", "b  app c1", "c  app c1")
	y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.Rollback})
	y.rounds(12)
	y.want("the second edit was rolled back", "a  app c1", "b  app c1", "c  app c1")
}

// TestABadEditGoesBack edits specs to one that fails. Another edit is tried, the bad one is not,
// and the refusals stay as few as the members' parts.
func TestABadEditGoesBack(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.bad = "bad"
	y.edit(namespace("bad"))
	y.rounds(12)
	y.want("a bad edit", "a  app c1", "b  app c1", "c  app c1")
	if y.record.Run.State != rollout.RolledBack || len(y.record.Refused) != 1 {
		t.Errorf("got %s and %v, want a rollout that went back, and the spec refused", y.record.Run.State, y.record.Refused)
	}
	for i := range 4 {
		y.edit(namespace(fmt.Sprint("fix", i)))
		y.rounds(6)
		y.want("another edit", fmt.Sprintf("a fix%d app c1", i), "b  app c1", "c  app c1")
		y.tell(rollout.Event{Kind: rollout.Command, Verb: rollout.Abort})
		y.rounds(12)
	}
	if len(y.record.Refused) != 1 {
		t.Errorf("got %v, want the last spec alone", y.record.Refused)
	}
}

// TestAnEditWaitsForItsSource edits a path to one that has never been resolved.
func TestAnEditWaitsForItsSource(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	delete(y.contents, extra)
	y.edit(func(s *catalog.ServiceSpec) { s.Sources[0].Path = "extra" })
	y.rounds(6)
	y.want("without content", "a  app c1", "b  app c1", "c  app c1")
	y.contents[extra] = content(extra, "c1")
	y.rounds(6)
	y.want("with content", "a  extra c1", "b  app c1", "c  app c1")
}

// TestBrakesReachAtOnce pauses a member, and confirms a prune, while a rollout waits in the canary. No member
// counts as unavailable because its digest changed.
func TestBrakesReachAtOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.edit(namespace("next"))
	y.rounds(6)
	y.edit(func(s *catalog.ServiceSpec) {
		options := s.Wanted()
		options.PruneConfirmation = "sha256:x"
		s.Options = &options
	})
	for _, service := range y.services {
		if spec, _, _ := y.planned(service); spec.Wanted().PruneConfirmation != "sha256:x" {
			t.Errorf("%s: got %+v, want the confirmation at once", service.Name, spec.Wanted())
		}
	}
	if _, err := y.work.Round(t.Context(), y.now, true); err != nil { // before any agent has reported
		t.Fatal(err)
	}
	if down := y.record.Run.Unavailable(); down != 0 {
		t.Errorf("got %d members that are not available, want none", down)
	}
	y.want("in between", "a next app c1", "b  app c1", "c  app c1")
}

// TestAReleaseThatPlansDoNotShow edits a ref to another one with the same content. Members that wait stay available,
// and the edit comes in waves nevertheless: later commits of the ref must not find it with all.
func TestAReleaseThatPlansDoNotShow(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	next := app
	next.Ref.Value = "next"
	y.contents[next] = catalog.HeldSource{Source: next, Snapshot: content(app, "c1").Snapshot}
	y.edit(func(s *catalog.ServiceSpec) { s.Sources[0].Ref.Value = "next" })
	for range 6 {
		y.rounds(1)
		if down := y.record.Run.Unavailable(); down > 1 {
			t.Fatalf("got %d members that are not available, want the one that is admitted at most", down)
		}
	}
	y.contents[next] = catalog.HeldSource{Source: next, Snapshot: content(app, "c2").Snapshot}
	y.rounds(6)
	y.want("a commit of the new ref", "a  app c1", "b  app c1", "c  app c1")
	y.approve()
	y.rounds(12)
	y.want("the commit after the edit", "a  app c2", "b  app c1", "c  app c1")
}

// TestNewcomersDoNotGoFirst has a global service select another cluster while its edited template is with the
// canary alone.
func TestNewcomersDoNotGoFirst(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, service := range y.services {
		service.Derived = &catalog.Derivation{Global: "web", GlobalUID: "web"}
	}
	y.edit(namespace("next"))
	y.add("d", "web")
	namespace("next")(&y.services[3].Spec)
	y.rounds(6)
	y.want("in the canary", "a next app c1", "b  app c1", "c  app c1", "d waits")
	y.approve()
	y.rounds(12)
	y.want("approved", "a next app c1", "b next app c1", "c next app c1", "d next app c1")

	y.add("e", "web")
	namespace("next")(&y.services[4].Spec)
	y.add("f", "other")
	y.rounds(4)
	y.want("of a settled template", "a next app c1", "b next app c1", "c next app c1", "d next app c1", "e next app c1", "f  app c1")
}

// TestAdmissionsOfEarlierVersions takes over services that are held at content alone: each gets the
// spec that it has, with which it was planned.
func TestAdmissionsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.contents[app] = content(app, "c2")
	for uid, a := range y.admitted {
		a.Spec = nil
		y.admitted[uid] = a
	}
	y.edit(namespace("own"))
	y.rounds(1)
	y.want("after an upgrade", "a own app c1", "b own app c1", "c own app c1")
	y.rounds(6)
	y.want("the commit that waits", "a own app c2", "b own app c1", "c own app c1")
	y.edit(namespace("next"))
	y.approve()
	y.rounds(12)
	y.want("an edit after the upgrade", "a next app c2", "b own app c2", "c own app c2")
}

// TestStartHoldsEachSpecOnce begins a rollout of many services that have one spec.
func TestStartHoldsEachSpecOnce(t *testing.T) {
	t.Parallel()
	var members []drive.Seen
	for i := range 1000 {
		one := []catalog.HeldSource{content(app, "c1")}
		m := seen(fmt.Sprint("s", i), one, one...)
		m.Service.Spec.Options = &syncpolicy.Options{Namespace: "next"}
		m.Spec = m.Service.Spec.Staged()
		members = append(members, m)
	}
	record := drive.Begin(&catalog.RolloutPolicy{}, members, nil, time.Unix(1e9, 0))
	if record == nil || len(record.Start.Specs) != 2 || len(record.Start.Contents) != 2 || len(record.Start.Members) != 1000 {
		t.Fatalf("got %+v, want two specs and two releases of 1000 members", record)
	}
}

// TestTooManyServices has a policy that covers more services than a rollout can have: nothing
// begins, and one line gives the reason.
func TestTooManyServices(t *testing.T) {
	t.Parallel()
	metrics, err := drive.NewMetrics(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	policy := &catalog.RolloutPolicy{Metadata: catalog.Metadata{UID: "waves"}}
	one := seen("a", []catalog.HeldSource{content(app, "c2")}, content(app, "c1"))
	f := &idle{sight: drive.Sight{
		Policies: []*catalog.RolloutPolicy{policy}, Members: map[string][]drive.Seen{"waves": slices.Repeat([]drive.Seen{one}, rollout.MaxMembers+1)},
	}}
	var logged strings.Builder
	w := drive.NewWork(drive.Params{Store: f, Fleet: f, Metrics: metrics, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, 1)
	for range 3 {
		if _, err := w.Round(t.Context(), time.Now(), true); err != nil {
			t.Fatal(err)
		}
	}
	if f.saved != 0 || strings.Count(logged.String(), "more services than a rollout can have") != 1 {
		t.Errorf("got %d writes and the log %q, want no rollout and one line", f.saved, logged.String())
	}
}
