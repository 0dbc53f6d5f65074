// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

// chartSteps render a chart with values, and patch what comes of it.
func chartSteps(t *testing.T) []*typev1.RenderStep {
	t.Helper()
	values, err := structpb.NewStruct(map[string]any{"replicas": 3, "ports": []any{80, "http"}})
	if err != nil {
		t.Fatal(err)
	}
	return []*typev1.RenderStep{
		{Path: "chart", Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{
			ValuesFiles: []string{"deploy/values.yaml"}, Values: values, Parameters: map[string]string{"image.tag": "${TAG}"},
		}}},
		{Path: "deploy/patches", FromPrevious: true, Renderer: &typev1.RenderStep_Kustomize{Kustomize: &typev1.KustomizeStep{}}},
	}
}

// chartDocument is the service app, which mounts one folder twice and renders it step by step.
func chartDocument(t *testing.T) *fleetv1.Document {
	t.Helper()
	document := serviceDocument("app", "one", "demo", "app")
	spec := document.GetService().Spec
	spec.Sources = append(spec.Sources, proto.CloneOf(spec.GetSources()[0]))
	spec.Sources[0].Mount, spec.Sources[1].Mount = "chart", "deploy"
	spec.Render = chartSteps(t)
	return document
}

// report has the agent report its version and its words.
func (a *agentKey) report(t *testing.T, h *hub, sequence uint64, version string, words ...string) {
	t.Helper()
	_, err := h.agents(t, a.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
		Instance: "i", Sequence: sequence, Full: true, Cluster: &distributorv1.ClusterReport{AgentVersion: version, Capabilities: words},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plan asks for the whole plan.
func (h *hub) plan(t *testing.T, a *agentKey) *distributorv1.Plan {
	t.Helper()
	res, err := h.agents(t, a.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetPlan()
}

// entryOf returns a service of a plan; nil if the plan does not have it.
func entryOf(p *distributorv1.Plan, name string) *distributorv1.PlanService {
	for _, service := range p.GetServices() {
		if service.GetName() == name {
			return service
		}
	}
	return nil
}

func hasProblem(reason errorsv1.Reason) func(*fleetv1.Service) bool {
	return func(s *fleetv1.Service) bool { return s.GetStatus().GetProblem().GetReason() == reason }
}

// wantWithheld fails unless the service is in the plan under its uid, with nothing that an agent
// could render or take for a removal.
func wantWithheld(t *testing.T, what string, entry *distributorv1.PlanService, uid string) {
	t.Helper()
	if entry == nil || entry.GetUid() != uid || len(entry.GetBundles()) != 0 {
		t.Errorf("%s: got %v, want the service without bundles", what, entry)
	}
	if len(entry.GetApply().GetPolicy().GetRequires()) == 0 {
		t.Errorf("%s: got %v, want an entry that an agent which knows no steps refuses", what, entry.GetApply())
	}
}

// TestStepsAreWithheldFromAgentsThatCannot follows a service from plain manifests to a chart, while
// its agent is old, upgraded, downgraded, and while the hub restarts: the service never leaves the
// plan, and no entry is ever handed to the agent that it would take for plain manifests.
func TestStepsAreWithheldFromAgentsThatCannot(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, serviceDocument("other", "one", "demo", "app"))
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	for len(entryOf(stream.next(t), "other").GetBundles()) == 0 {
	}
	agent.report(t, h, 1, "v0.4.0", "overview")
	uid := entryOf(h.plan(t, agent), "app").GetUid()

	h.apply(t, chartDocument(t))
	withheld := stream.next(t)
	wantWithheld(t, "an old agent", entryOf(withheld, "app"), uid)
	if got := entryOf(withheld, "other"); len(got.GetBundles()) != 1 || got.GetApply().GetPolicy() != nil {
		t.Errorf("got %v, want a service without steps as it was", got)
	}
	status := h.waitService(t, "app", hasProblem(errorsv1.Reason_REASON_AGENT_OUTDATED)).GetStatus()
	const words = "the agent of cluster one (version v0.4.0) cannot render helm or carry out render steps; upgrade it."
	if got := status.GetProblem().GetMessage(); !strings.HasPrefix(got, words) || status.GetPhase() != typev1.ServicePhase_SERVICE_PHASE_FAILED || status.GetSynced() {
		t.Errorf("got %v, want it to begin with %q", status, words)
	}
	_, err := h.fleet(t, adminToken).PreviewService(t.Context(), &fleetv1.PreviewServiceRequest{Name: "app", Ref: branch("next")})
	wantReason(t, err, "AGENT_OUTDATED")

	h.stop(t)
	h.start(t)
	wantWithheld(t, "after a restart of the hub", entryOf(h.plan(t, agent), "app"), uid)
	stream = h.watchPlan(t, agent.token, withheld.GetVersion())

	agent.report(t, h, 2, "v0.5.0", "overview", "render:steps")
	if got := h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return strings.Contains(s.GetStatus().GetProblem().GetMessage(), "v0.5.0")
	}).GetStatus().GetProblem().GetMessage(); !strings.Contains(got, "cannot render helm;") {
		t.Errorf("got %q, want what is still lacking", got)
	}
	wantWithheld(t, "an agent without Helm", entryOf(h.plan(t, agent), "app"), uid)

	agent.report(t, h, 3, "v0.6.0", renderstep.Words(renderstep.Helm)...)
	given := stream.next(t)
	entry := entryOf(given, "app")
	if diff := cmp.Diff(chartSteps(t), entry.GetApply().GetRender(), protocmp.Transform()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"render:helm", "render:steps"}, entry.GetApply().GetPolicy().GetRequires()); diff != "" {
		t.Errorf("required words (-want +got):\n%s", diff)
	}
	var mounts []string
	for _, bundle := range entry.GetBundles() {
		if mounts = append(mounts, bundle.GetMount()); bundle.GetDigest() != content.snapshot.GetDigest() {
			t.Errorf("got %v, want the content", bundle)
		}
	}
	if diff := cmp.Diff([]string{"chart", "deploy"}, mounts); diff != "" || entry.GetUid() != uid {
		t.Errorf("mounts of %s (-want +got):\n%s", entry.GetUid(), diff)
	}
	h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetProblem() == nil })

	agent.report(t, h, 4, "v0.4.0", "overview")
	wantWithheld(t, "a downgraded agent", entryOf(stream.next(t), "app"), uid)
	res, err := h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: given.GetVersion(), AcceptDelta: true})
	if err != nil {
		t.Fatal(err)
	}
	updated, err := plandelta.Apply(given, res.GetDelta())
	if err != nil || len(res.GetDelta().GetRemoved()) != 0 {
		t.Errorf("got %v (%v), want a delta that removes nothing", res, err)
	}
	wantWithheld(t, "by a delta", entryOf(updated, "app"), uid)
}

// TestStepsWaitForTheFirstReport has an unknown agent: it may be of any version.
func TestStepsWaitForTheFirstReport(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, chartDocument(t))
	agent := h.enrol(t, "one")
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return len(s.GetStatus().GetSources()) == 2 && s.GetStatus().GetSources()[1].GetSnapshot() != nil
	})
	status := h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetProblem() != nil }).GetStatus()
	if status.GetPhase() != typev1.ServicePhase_SERVICE_PHASE_PENDING {
		t.Errorf("got %v, want a service that waits", status)
	}
	entry := entryOf(h.plan(t, agent), "app")
	wantWithheld(t, "an agent without a report", entry, entry.GetUid())

	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	stream, err := h.fleet(t, adminToken).Watch(ctx, &fleetv1.WatchRequest{Kind: "Service", Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	reported := false
	for stream.Receive() {
		switch stream.Msg().GetDocument().GetService().GetStatus().GetProblem().GetReason() {
		case errorsv1.Reason_REASON_AGENT_OFFLINE:
			if !reported {
				agent.report(t, h, 1, "v1") // as it enrolled, without any word
				reported = true
			}
		case errorsv1.Reason_REASON_AGENT_OUTDATED:
			return
		default:
		}
	}
	t.Errorf("reported %v, watch ended with %v, want to be told that the agent is outdated", reported, stream.Err())
}

// TestMountsShareOneSnapshot has services that mount the same folder at different places: gitcache
// is asked for one content, and each plan has its place.
func TestMountsShareOneSnapshot(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	agent.report(t, h, 1, "v1", renderstep.Words()...)
	stream := h.watchPlan(t, agent.token, "")
	stream.nextWith(t, content.snapshot.GetDigest())
	asked := h.git.asks("demo/app")
	for _, mount := range []string{"", "a", "a/b"} {
		document := serviceDocument("mounted", "one", "demo", "app")
		document.GetService().Spec.Sources[0].Mount = mount
		h.apply(t, document)
		entry := entryOf(stream.next(t), "mounted")
		if got := entry.GetBundles(); len(got) != 1 || got[0].GetMount() != mount || got[0].GetDigest() != content.snapshot.GetDigest() {
			t.Errorf("mount %q: got %v at once, want the known content there", mount, got)
		}
	}
	if got := h.git.asks("demo/app"); got != asked {
		t.Errorf("gitcache was asked %d times more, want what is known to be shared", got-asked)
	}
}

// TestSourcesAndStepsAreChecked names the field in the document's place.
func TestSourcesAndStepsAreChecked(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	for field, change := range map[string]func(*fleetv1.ServiceSpec){
		"spec.sources[0].mount":            func(s *fleetv1.ServiceSpec) { s.Sources[0].Mount = "../out" },
		"spec.sources[0].chart":            func(s *fleetv1.ServiceSpec) { s.Sources[0].Chart = "web" },
		"spec.sources[0].layer":            func(s *fleetv1.ServiceSpec) { s.Sources[0].Layer = &typev1.ArtifactLayer{Copy: true} },
		"spec.sources[0].layer.files":      func(s *fleetv1.ServiceSpec) { s.Sources[0].Layer = &typev1.ArtifactLayer{Copy: true, Files: true} },
		"spec.renderer":                    func(s *fleetv1.ServiceSpec) { s.Renderer = distributorv1.Renderer_RENDERER_PLAIN },
		"spec.render[0].path":              func(s *fleetv1.ServiceSpec) { s.Render[0].Path = "/etc" },
		"spec.render[0].helm.crds":         nil,
		"spec.render[0].helm.release_name": func(s *fleetv1.ServiceSpec) { s.Render[0].GetHelm().ReleaseName = "No" },
		"spec.render[1].from_previous":     func(s *fleetv1.ServiceSpec) { s.Render[1].Renderer = &typev1.RenderStep_Jsonnet{} },
		"spec.policy.requires":             func(s *fleetv1.ServiceSpec) { s.Policy = &typev1.SyncPolicy{Requires: []string{"render:helm"}} },
	} {
		document := serviceDocument("app", "one", "demo", "app")
		spec := document.GetService().Spec
		spec.Render = chartSteps(t)
		if change == nil { // what a newer version knows
			field = "spec.render[0]"
			spec.Render[0].GetHelm().Crds = 9
		} else {
			change(spec)
		}
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		wantReason(t, err, "FIELD_INVALID")
		if got := rpcerr.Metadata(err)[rpcerr.MetadataField]; got != "documents[0]."+field {
			t.Errorf("got field %q, want %q: %v", got, field, err)
		}
	}
}

// TestDocumentsComeBack reads what was written, mounts and steps included.
func TestDocumentsComeBack(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	document := chartDocument(t)
	stored := h.apply(t, document).GetOutcomes()[0].GetDocument().GetService().GetSpec()
	if diff := cmp.Diff(document.GetService().GetSpec(), stored, protocmp.Transform()); diff != "" {
		t.Errorf("stored spec (-want +got):\n%s", diff)
	}
	if got := h.apply(t, document).GetOutcomes()[0].GetAction(); got != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		t.Errorf("the same again: got %v, want unchanged", got)
	}
	h.stop(t)
	h.start(t)
	res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "app")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document.GetService().GetSpec(), res.GetSpec(), protocmp.Transform()); diff != "" {
		t.Errorf("spec after a restart (-want +got):\n%s", diff)
	}
}

// TestLabelsReachTheAgent changes a cluster's labels and annotations: plans and deltas have them, and
// no service changes.
func TestLabelsReachTheAgent(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	last := stream.nextWith(t, content.snapshot.GetDigest())
	if last.GetFacts() != nil {
		t.Errorf("got %v, want no facts", last.GetFacts())
	}
	for _, want := range []*typev1.ClusterFacts{
		{Labels: map[string]string{"region": "eu"}},
		{Labels: map[string]string{"region": "us"}},
		{Labels: map[string]string{"region": "us"}, Annotations: map[string]string{"example.com/team": "shop"}},
		nil,
	} {
		document := clusterDocument("one")
		document.GetCluster().Metadata.Labels, document.GetCluster().Metadata.Annotations = want.GetLabels(), want.GetAnnotations()
		h.apply(t, document)
		next := stream.next(t)
		if diff := cmp.Diff(want, next.GetFacts(), protocmp.Transform()); diff != "" || next.GetVersion() == last.GetVersion() {
			t.Errorf("facts in a plan of version %s (-want +got):\n%s", next.GetVersion(), diff)
		}
		if diff := cmp.Diff(last.GetServices(), next.GetServices(), protocmp.Transform()); diff != "" {
			t.Errorf("facts changed services (-before +after):\n%s", diff)
		}
		res, err := h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: last.GetVersion(), AcceptDelta: true})
		if err != nil {
			t.Fatal(err)
		}
		updated, err := plandelta.Apply(last, res.GetDelta())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(next, updated, protocmp.Transform()); diff != "" || len(res.GetDelta().GetServices()) != 0 {
			t.Errorf("plan by a delta (-want +got):\n%s", diff)
		}
		last = next
	}
}

// exampleDocuments reads the documents of an example.
func exampleDocuments(t *testing.T, path string) []*fleetv1.Document {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parsedDocuments(t, string(content))
}

// TestExampleIsPlanned applies the example with a chart, and follows it to the plan of an agent that
// can render it.
func TestExampleIsPlanned(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	documents := exampleDocuments(t, "../../examples/charts/fleet.yaml")
	wanted := documents[len(documents)-1].GetService().GetSpec()
	contents := map[string]string{}
	for _, source := range wanted.GetSources() {
		content := newFolder(t, "c1", source.GetMount())
		h.git.set(source.GetRepository(), source.GetPath(), content)
		contents[source.GetMount()] = content.snapshot.GetDigest()
	}
	h.apply(t, documents...)
	agent := h.enrol(t, wanted.GetCluster())
	agent.report(t, h, 1, "v1", renderstep.WordsKnown()...)
	stream := h.watchPlan(t, agent.token, "")
	for {
		p := stream.next(t)
		entry := entryOf(p, "shop")
		if len(entry.GetBundles()) == 0 {
			continue // the sources are not resolved yet
		}
		for _, bundle := range entry.GetBundles() {
			if want := contents[bundle.GetMount()]; bundle.GetDigest() != want {
				t.Errorf("got %v, want the content %s there", bundle, want)
			}
		}
		if diff := cmp.Diff(wanted.GetRender(), entry.GetApply().GetRender(), protocmp.Transform()); diff != "" || entry.GetConfigDigest() == "" {
			t.Errorf("configuration %q, steps (-want +got):\n%s", entry.GetConfigDigest(), diff)
		}
		if got := p.GetFacts().GetLabels()["region"]; got != "eu" {
			t.Errorf("got facts %v, want the region", p.GetFacts())
		}
		return
	}
}
