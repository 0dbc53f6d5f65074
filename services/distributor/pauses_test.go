// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// endingDocument returns the demo service, paused until a time.
func endingDocument(until time.Time) *fleetv1.Document {
	document := serviceDocument("app", "one", "demo", "app")
	spec := document.GetService().GetSpec()
	spec.Paused, spec.PausedUntil = true, timestamppb.New(until)
	return document
}

// TestAPauseEndsByItself has the plan and every view follow the end of a pause, although the document stays
// as it is: applying it again changes nothing, and a hub that starts later means the same by it.
func TestAPauseEndsByItself(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	agent := h.enrol(t, "one")
	document := endingDocument(time.Now().Add(time.Second))
	h.apply(t, document)
	isPlanned := func(isPaused bool) bool {
		entry := entryOf(planOf(t, h, agent, ""), "app")
		return len(entry.GetBundles()) == 1 && entry.GetApply().GetPaused() == isPaused
	}
	await.True(t, "the end of the pause", func() bool { return isPlanned(false) })
	ended := func(what string) {
		t.Helper()
		service := h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetPauseEnded() })
		if !proto.Equal(service.GetSpec(), document.GetService().GetSpec()) || service.GetMetadata().GetGeneration() != 2 {
			t.Errorf("%s: got %v, want the spec that was applied", what, service)
		}
		if !isPlanned(false) {
			t.Errorf("%s: the plan has the pause again", what)
		}
		res, err := h.queries(t, adminToken).QueryFleet(t.Context(), &fleetv1.QueryFleetRequest{Query: &fleetv1.FleetQuery{Kind: "Service", Filter: "paused=false"}})
		if err != nil || len(res.GetRows()) != 1 || res.GetRows()[0].GetPaused() || res.GetRows()[0].GetPausedUntil() != nil {
			t.Errorf("%s: got %v, %v of the services that are not paused, want one", what, res, err)
		}
	}
	ended("at the end")
	if outcome := h.apply(t, document).GetOutcomes()[0]; outcome.GetAction() != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		t.Errorf("got %v of the same document, want unchanged", outcome.GetAction())
	}
	h.stop(t)
	h = startReplica(t, h.git, func(c *distributor.Config) { c.DatabaseURL = h.cfg.DatabaseURL })
	ended("after a restart")

	h.apply(t, endingDocument(time.Now().Add(time.Hour)))
	service := h.waitService(t, "app", func(s *fleetv1.Service) bool { return !s.GetStatus().GetPauseEnded() })
	if !isPlanned(true) {
		t.Errorf("got %v, want it paused once more", service)
	}
	service.Spec.Paused, service.Spec.PausedUntil = false, nil
	if _, err := fleetcalls.Update(t.Context(), h.fleet(t, adminToken), service); err != nil || !isPlanned(false) {
		t.Errorf("got %v and paused %v, want it resumed", err, !isPlanned(false))
	}
	old := serviceDocument("old", "one", "demo", "app")
	old.GetService().Spec.Paused, old.GetService().Spec.PausedUntil = true, timestamppb.New(time.Unix(1, 0))
	if status := h.apply(t, old).GetOutcomes()[0].GetDocument().GetService().GetSpec(); !status.GetPaused() {
		t.Errorf("got %v of a document that is older than its pause, want it as it was written", status)
	}
	await.True(t, "a service that was never paused here", func() bool {
		entry := entryOf(planOf(t, h, agent, ""), "old")
		return entry != nil && !entry.GetApply().GetPaused()
	})
}

// TestSecEndsAreBounded sets times that no pause can have. None of them is stored, and the error names the field.
func TestSecEndsAreBounded(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	admin, now := h.fleet(t, adminToken), time.Now()
	stored, err := fleetcalls.Get[*fleetv1.Service](t.Context(), admin, "app")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		until *timestamppb.Timestamp
		// alone is true for an end without a pause.
		alone bool
		// document and call are whether Apply and Update take it.
		document, call bool
	}{
		"in an hour":             {until: timestamppb.New(now.Add(time.Hour)), document: true, call: true},
		"in 89 days":             {until: timestamppb.New(now.Add(89 * 24 * time.Hour)), document: true, call: true},
		"with nanoseconds":       {until: timestamppb.New(now.Add(time.Hour).Truncate(time.Second).Add(123456789)), document: true, call: true},
		"a minute ago":           {until: timestamppb.New(now.Add(-time.Minute)), document: true},
		"in 1970":                {until: &timestamppb.Timestamp{}, document: true},
		"in 91 days":             {until: timestamppb.New(now.Add(91 * 24 * time.Hour))},
		"the year 9999":          {until: &timestamppb.Timestamp{Seconds: 253402300799, Nanos: 999999999}},
		"after the year 9999":    {until: &timestamppb.Timestamp{Seconds: 253402300800}},
		"the largest number":     {until: &timestamppb.Timestamp{Seconds: 1<<63 - 1}},
		"the zero time of Go":    {until: &timestamppb.Timestamp{Seconds: -62135596800}},
		"before the year 1":      {until: &timestamppb.Timestamp{Seconds: -62135596801}},
		"the smallest number":    {until: &timestamppb.Timestamp{Seconds: -1 << 63}},
		"before 1970":            {until: &timestamppb.Timestamp{Seconds: -1}},
		"negative nanoseconds":   {until: &timestamppb.Timestamp{Seconds: now.Unix() + 60, Nanos: -1}},
		"too many nanoseconds":   {until: &timestamppb.Timestamp{Seconds: now.Unix() + 60, Nanos: 1_000_000_000}},
		"an end without a pause": {until: timestamppb.New(now.Add(time.Hour)), alone: true},
	} {
		next := proto.CloneOf(stored)
		next.Metadata.ResourceVersion = 0
		next.Spec.Paused, next.Spec.PausedUntil = !test.alone, test.until
		global := webGlobal()
		global.Spec.Paused, global.Spec.PausedUntil = !test.alone, test.until
		overridden := webGlobal()
		overridden.Spec.Overrides[0].Paused, overridden.Spec.Overrides[0].PausedUntil = new(!test.alone), test.until
		check := func(what, field string, err error, isTaken bool) {
			t.Helper()
			if isTaken && err != nil || !isTaken && rpcerr.ReasonOf(err).String() != "REASON_FIELD_INVALID" {
				t.Errorf("%s: %s: got %v, want taken: %v", name, what, err, isTaken)
			} else if !isTaken && !strings.Contains(err.Error(), field+": ") {
				t.Errorf("%s: %s: got %v, want an error about %s", name, what, err, field)
			}
		}
		_, err := fleetcalls.Update(t.Context(), admin, next)
		check("update", "spec.paused_until", err, test.call)
		back := proto.CloneOf(stored)
		back.Metadata.ResourceVersion = 0
		h.apply(t, fleetdoc.Of(back))
		apply := func(document *fleetv1.Document) error {
			_, err := admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}, DryRun: true})
			return err
		}
		check("apply", "spec.paused_until", apply(fleetdoc.Of(next)), test.document)
		check("global service", "spec.paused_until", apply(fleetdoc.Of(global)), test.document)
		check("override", "spec.overrides[0].paused_until", apply(fleetdoc.Of(overridden)), test.document)
		if test.alone {
			continue
		}
		ignoring := proto.CloneOf(stored)
		ignoring.Metadata.ResourceVersion = 0
		ignoring.Spec.Policy = &typev1.SyncPolicy{Ignore: []*typev1.IgnoreRule{{Pointers: []string{"/a"}, Until: test.until}}}
		check("ignore rule", "spec.policy.ignore[0].until", apply(fleetdoc.Of(ignoring)), test.document)
		source := fleetSourceDocument("", "fleet", "demo", func(s *fleetv1.FleetSourceSpec) { s.Suspended, s.SuspendedUntil = true, test.until })
		check("fleet source", "spec.suspended_until", apply(source), test.document)
	}
}

// TestSecPauseAloneSetsTheEnd has people of several roles set the end of a pause, move it and clear it.
// The right to pause is enough for that, and for nothing else.
func TestSecPauseAloneSetsTheEnd(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), clusterDocument("two"), repositoryDocument("demo"), serviceDocument("app", "one", "demo", "app"))
	stored, err := fleetcalls.Get[*fleetv1.Service](t.Context(), c.admin, "app")
	if err != nil {
		t.Fatal(err)
	}
	stored.Metadata.ResourceVersion = 0
	editor := typev1.AccessRole_ACCESS_ROLE_EDITOR
	for name, test := range map[string]struct {
		binding *fleetv1.AccessBindingSpec
		want    string
	}{
		"viewer":                       {&fleetv1.AccessBindingSpec{Role: viewer, Clusters: named("one")}, "ACCESS_DENIED"},
		"operator":                     {&fleetv1.AccessBindingSpec{Role: operator, Clusters: named("one")}, ""},
		"operator of another cluster":  {&fleetv1.AccessBindingSpec{Role: operator, Clusters: named("two")}, "NOT_FOUND"},
		"editor of another project":    {&fleetv1.AccessBindingSpec{Role: editor, Projects: &fleetv1.ProjectSelection{Names: []string{"elsewhere"}}}, "NOT_FOUND"},
		"editor of the project":        {&fleetv1.AccessBindingSpec{Role: editor, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}}}, ""},
		"a person without any binding": {nil, "NOT_FOUND"},
	} {
		user := strings.ReplaceAll(name, " ", "-")
		token, _ := c.join(t, user)
		if test.binding != nil {
			test.binding.Users = []string{user}
			c.bind(t, user, test.binding)
		}
		update := func(what string, change func(*fleetv1.ServiceSpec), want string) {
			t.Helper()
			next := proto.CloneOf(stored)
			change(next.GetSpec())
			_, err := fleetcalls.Update(t.Context(), c.fleet(t, token), next)
			if want == "" && err != nil || want != "" && rpcerr.ReasonOf(err).String() != "REASON_"+want {
				t.Errorf("%s: %s: got %v, want %q", name, what, err, want)
			}
		}
		until := func(d time.Duration) func(*fleetv1.ServiceSpec) {
			return func(s *fleetv1.ServiceSpec) { s.Paused, s.PausedUntil = true, timestamppb.New(time.Now().Add(d)) }
		}
		update("a pause with an end", until(time.Hour), test.want)
		update("another end", until(2*time.Hour), test.want)
		if name == "operator" {
			update("an end, and more", func(s *fleetv1.ServiceSpec) { until(time.Hour)(s); s.Namespace = "elsewhere" }, "ACCESS_DENIED")
		}
		update("no pause", func(*fleetv1.ServiceSpec) {}, test.want)
	}
}

// TestPausesOfOneMemberEnd pauses one of a global service's services beside the pause of the global service. The
// later end counts, and what the global service has is not ended by a person who may pause one member.
func TestPausesOfOneMemberEnd(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	global := webGlobal()
	h.apply(t, repositoryDocument("demo"), labelledCluster("eu-1", edge("eu")), fleetdoc.Of(global))
	hour := timestamppb.New(time.Now().Add(time.Hour).Truncate(time.Microsecond))
	later := timestamppb.New(hour.AsTime().Add(time.Hour))
	update := func(paused bool, until *timestamppb.Timestamp) (*fleetv1.ServiceSpec, error) {
		t.Helper()
		service := h.service(t, "web@eu-1")
		service.Spec.Paused, service.Spec.PausedUntil = paused, until
		res, err := fleetcalls.Update(t.Context(), h.fleet(t, adminToken), service)
		return res.GetSpec(), err
	}
	want := func(what string, got *fleetv1.ServiceSpec, paused bool, until *timestamppb.Timestamp) {
		t.Helper()
		if got.GetPaused() != paused || !proto.Equal(got.GetPausedUntil(), until) {
			t.Errorf("%s: got %v, want paused %v until %v", what, got, paused, until)
		}
	}
	spec, err := update(true, hour)
	if want("a member", spec, true, hour); err != nil {
		t.Fatal(err)
	}
	if e := h.service(t, "web@eu-1").GetStatus().GetException(); !e.GetPaused() || !proto.Equal(e.GetPausedUntil(), hour) {
		t.Errorf("got %v, want the decision with its end", e)
	}
	global.Spec.Paused, global.Spec.PausedUntil = true, later
	h.apply(t, fleetdoc.Of(global))
	h.waitService(t, "web@eu-1", func(s *fleetv1.Service) bool { return proto.Equal(s.GetSpec().GetPausedUntil(), later) })
	for _, earlier := range []*timestamppb.Timestamp{hour, nil} {
		if _, err := update(earlier != nil, earlier); err == nil {
			t.Errorf("a person ended the pause of the global service at %v", earlier)
		} else {
			wantReason(t, err, "SERVICE_DERIVED")
		}
	}
	spec, err = update(true, nil)
	if want("longer than the global service", spec, true, nil); err != nil {
		t.Error(err)
	}
	global.Spec.PausedUntil = timestamppb.New(time.Now().Add(-time.Hour))
	h.apply(t, fleetdoc.Of(global))
	await.True(t, "a resumed member of a global service whose pause has ended", func() bool {
		_, err := update(false, nil)
		return err == nil && h.service(t, "web@eu-1").GetStatus().GetPauseEnded()
	})
}

// TestSecEndsInGit commits a service whose pause has ended, and one whose pause would end too late. The first is
// applied and written once; the second is refused with its field, and stays away.
func TestSecEndsInGit(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet", wholeHub))
	documents := func(version, until string) map[string]string {
		document := func(name, until string) string {
			return "{apiVersion: leat.dev/v1, kind: Service, metadata: {name: " + name + ", labels: {version: " + version + "}}, spec: {cluster: one, paused: true, pausedUntil: \"" +
				until + "\", sources: [{repository: fleet}]}}\n"
		}
		return map[string]string{
			"one.yaml": "{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: one}}\n",
			"app.yaml": document("app", "2020-01-01T08:00:00Z"), "late.yaml": document("late", until),
		}
	}
	h.commit(t, "fleet", "c1", documents("v1", "9999-12-31T23:59:59Z"))
	h.at(t, "fleet", "c1", errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS)
	if d := h.documentsOf(t, "fleet")["service/late@one"]; !strings.Contains(d.GetMessage(), "spec.pausedUntil: is more than 90 days ahead") {
		t.Errorf("got %v of a pause that ends too late, want the field", d)
	}
	if service := h.service(t, "app"); !service.GetStatus().GetPauseEnded() || service.GetMetadata().GetGeneration() != 1 {
		t.Errorf("got %v, want a service whose pause has ended", service)
	}
	h.commit(t, "fleet", "c2", documents("v1", "2021-01-01T08:00:00Z"))
	h.at(t, "fleet", "c2", errorsv1.Reason_REASON_UNSPECIFIED)
	app, late := h.service(t, "app"), h.service(t, "late")
	if app.GetMetadata().GetResourceVersion() == late.GetMetadata().GetResourceVersion() || app.GetMetadata().GetGeneration() != 1 || !late.GetStatus().GetPauseEnded() {
		t.Errorf("got %v and %v, want the first one written once, and the second one not paused", app, late)
	}
}
