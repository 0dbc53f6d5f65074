// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/fleettest"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
	"github.com/leatdev/leat/services/gitcache/worktree"
)

func TestMain(m *testing.M) {
	renderworker.Serve(os.Args[1:]) // tests that call command.Run start this program as their worker
	testscript.Main(withPrograms{m}, map[string]func(){"open-page": openPage})
}

// openPage is a browser that shows one page.
func openPage() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Args[1], nil)
	if err == nil {
		var response *http.Response
		if response, err = new(http.Client).Do(request); err == nil {
			err = response.Body.Close()
		}
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// withPrograms compiles the leat that scripts run, runs the tests, and ends the API servers that they
// have borrowed.
//
// Scripts start leat some hundred times. A copy of this test program with the race detector needs
// seconds for each start, most of which pass before main begins.
type withPrograms struct{ *testing.M }

// Run implements testscript.TestingM.
func (m withPrograms) Run() int {
	dir, err := os.MkdirTemp("", "leat-scripts")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }() // the system deletes it if this fails
		_, err = program.Compile(context.Background(), dir, "../../cmd/leat")
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return kubetest.Run(m.M)
}

type hubKey struct{}

// TestScripts runs leat like a user, as a process with arguments against a double of the hub over HTTP.
func TestScripts(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts(t, "testdata", "testdata/double"),
		Setup: func(env *testscript.Env) error {
			hub := fleettest.Start(env.T().(testing.TB))
			env.Values[hubKey{}] = hub
			return setEnvironment(env, hub.URL, fleettest.Token, examples)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"service": putService,
			"cluster": putCluster,
			"history": putHistory,
			"mode":    checkMode,
			"plan":    putPlan,
			"tunnel":  setTunnel,

			"provider": setProvider,
		},
		Condition:           onHub(false),
		RequireExplicitExec: true,
	})
}

// TestDocumentedOutput compares docs/guides/render.md with what the scripts check, and reads its
// facts.
func TestDocumentedOutput(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guides/render.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile("testdata/double/explain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range script.Files {
		if file.Name == "manifests" && !bytes.Contains(page, append([]byte("```\n"), file.Data...)) {
			t.Errorf("docs/guides/render.md does not show\n%s", file.Data)
		}
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	var facts render.ClusterFacts
	if err := yaml.UnmarshalStrict([]byte(example), &facts); err != nil || facts.KubernetesVersion == "" || len(facts.APIVersions) == 0 {
		t.Errorf("got %+v, %v, want the facts of docs/guides/render.md", facts, err)
	}
}

// putPlan makes the hub deliver a folder for a service: plan NAME DIR [broken|empty]. A broken hub
// delivers bytes that do not match the digest.
func putPlan(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: plan NAME DIR [broken|empty]")
	}
	state := strings.Join(args[2:], "")
	content, err := worktree.Read(context.Background(), ts.MkAbs(args[1]), &typev1.Source{})
	ts.Check(err)
	plain, err := io.ReadAll(content.Tar)
	ts.Check(errors.Join(err, content.Tar.Close()))
	var packed bytes.Buffer
	w, err := bundle.Compress(&packed)
	ts.Check(err)
	_, err = w.Write(plain)
	ts.Check(errors.Join(err, w.Close()))
	sum := digest.FromBytes(plain).String()
	if state == "broken" {
		sum = digest.FromBytes([]byte("other bytes")).String()
	}
	planned := &fleetv1.GetServicePlanResponse{
		Cluster: "eu-1", KubernetesVersion: "v1.34.2", Installed: true,
		Facts: &typev1.ClusterFacts{Labels: map[string]string{"region": "eu"}},
		Service: &distributorv1.PlanService{
			Name: args[0], Apply: &distributorv1.ApplySpec{
				Namespace: "web", Render: []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Jsonnet{
					Jsonnet: &typev1.JsonnetStep{Arguments: map[string]string{"tag": "${TAG}"}},
				}}},
			},
			Bundles: []*distributorv1.PlanBundle{{Digest: sum, Commit: fleettest.Commit, Version: "v1.4.2", Repository: "deploy", Path: "shop"}},
		},
		Config: &fleetv1.ServiceConfig{Values: map[string]string{"TAG": "v1"}, Secrets: map[string]string{"PASSWORD": ""}},
	}
	if state == "empty" {
		planned.Service.Bundles = nil
	}
	ts.Value(hubKey{}).(*fleettest.Hub).PutPlan(planned, map[string][]byte{sum: packed.Bytes()})
}

// putService stores a service in a state: service NAME
// healthy|pending|failed|refused|stale|unfetched|drifted|guarded|held|pinned|tested|warned|dry|contested|released|resolved.
// NAME may end with @CLUSTER, which is demo otherwise.
func putService(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: service NAME STATE")
	}
	name, cluster, _ := strings.Cut(args[0], "@")
	service := &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: name, Generation: 1},
		Spec:     &fleetv1.ServiceSpec{Cluster: cmp.Or(cluster, "demo")},
		Status:   proto.CloneOf(fleettest.Healthy()),
	}
	switch args[1] {
	case "healthy":
	case "released": // by an agent that reports versions, beside a source that has none
		service.Status.Report.AppliedCommits = []string{strings.Repeat("ab", 32), fleettest.Commit}
		service.Status.Report.AppliedVersions = []string{"4.2.1\x1b[31m", ""}
	case "resolved": // by a hub that knows versions, beside an agent that does not
		service.Status.Report.AppliedDigests = []string{"sha256:1"}
		service.Status.Sources = []*fleetv1.SourceStatus{{Snapshot: &typev1.Snapshot{Digest: "sha256:1", Version: "v1.4.2"}}}
	case "pending":
		service.Status = &fleetv1.ServiceStatus{Phase: typev1.ServicePhase_SERVICE_PHASE_PENDING}
	case "stale":
		service.Metadata.Generation = 2
	case "unfetched":
		service.Spec.Sources = []*typev1.Source{{Repository: "away"}}
		ts.Value(hubKey{}).(*fleettest.Hub).Put(fleetdoc.Of(&fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: "away"},
			Status: &gitcachev1.RepositoryState{Problem: &typev1.Problem{
				Reason: errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, Message: "no answer",
			}},
		}))
	case "failed":
		service.Status.Synced = false
		service.Status.Phase = typev1.ServicePhase_SERVICE_PHASE_FAILED
		service.Status.Problem = &typev1.Problem{
			Reason: errorsv1.Reason_REASON_REF_NOT_FOUND, Message: "repository shop has no branch mian",
		}
	case "refused": // of two objects that were healthy, the API server took a change of neither
		service.Status.Synced = false
		service.Status.Phase = typev1.ServicePhase_SERVICE_PHASE_FAILED
		service.Status.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_APPLY_REJECTED, Message: "the API server refused 2 objects"}
		for name, health := range map[string]typev1.Health{"api": typev1.Health_HEALTH_HEALTHY, "web": typev1.Health_HEALTH_DEGRADED} {
			service.Status.Report.Objects = append(service.Status.Report.Objects, &typev1.ObjectStatus{
				Ref: &typev1.ObjectRef{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: name}, Health: health,
				Problem: &typev1.Problem{Reason: errorsv1.Reason_REASON_APPLY_REJECTED, Message: "the API server refused it"},
			})
		}
	case "drifted":
		service.Status.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_DRIFT_DETECTED, Message: "2 objects differ"}
		service.Status.Report.Drift = []*distributorv1.ObjectDrift{
			{
				Ref:    &typev1.ObjectRef{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
				Fields: []*distributorv1.FieldDrift{{Path: "spec.replicas", Old: "2", New: "5", Manager: "kubectl-edit"}, {Path: "spec.paused", Old: "false\nand\x20more"}},
			},
			{Ref: &typev1.ObjectRef{Version: "v1", Kind: "Namespace", Name: "shop"}},
		}
	case "tested":
		began := time.Unix(1700000000, 0)
		service.Status.Phase = typev1.ServicePhase_SERVICE_PHASE_DEGRADED
		service.Status.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_TEST_FAILED, Message: "test Job.batch shop/smoke failed: exit code 1"}
		service.Status.Report.Tests = []*distributorv1.TestReport{
			{
				Ref: &typev1.ObjectRef{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "ping"}, Passed: true,
				StartedAt: timestamppb.New(began), EndedAt: timestamppb.New(began.Add(3 * time.Second)),
			},
			{
				Ref:       &typev1.ObjectRef{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "smoke"},
				StartedAt: timestamppb.New(began), EndedAt: timestamppb.New(began.Add(4 * time.Minute)),
				Message: "exit code\n1", LogTail: "GET /health\n\x1b[31mgot 500\n",
			},
		}
	case "warned":
		service.Status.Report.Warnings = []string{"chart web:\nits templates use the function lookup"}
	case "dry":
		service.Spec.DryRun = true
		service.Status.Report.DryRun = &distributorv1.DryRunReport{
			Created: 1, Updated: 1, Deleted: 1, Unchanged: 7, Changes: []*distributorv1.DryRunChange{
				{Ref: &typev1.ObjectRef{Version: "v1", Kind: "Service", Namespace: "shop", Name: "old"}, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_DELETE},
				{Ref: &typev1.ObjectRef{Version: "v1", Kind: "Namespace", Name: "shop"}, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_CREATE},
				{Ref: &typev1.ObjectRef{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"}, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_UPDATE},
				{Ref: &typev1.ObjectRef{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "theirs"}, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_ADOPT},
			},
		}
	case "contested":
		service.Metadata.Labels = map[string]string{fleettest.Contested: ""}
	case "pinned":
		service.Status.Hold = &fleetv1.ContentHold{PinnedRevision: 3, PinnedBy: "ada"}
	case "held":
		service.Metadata.Labels = map[string]string{fleettest.Held: ""}
	case "guarded":
		service.Status.Phase = typev1.ServicePhase_SERVICE_PHASE_FAILED
		service.Status.Report.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_PRUNE_GUARDED, Message: "pruning would take 2 of 2 objects away"}
		service.Status.Problem = service.Status.Report.Problem
		service.Status.Report.GuardedSpecDigest = "sha256:" + strings.Repeat("7", 64)
		service.Status.Report.Guarded = []*typev1.ObjectRef{
			{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"}, {Version: "v1", Kind: "Namespace", Name: "shop"},
		}
	default:
		ts.Fatalf("unknown state %q", args[1])
	}
	hub := ts.Value(hubKey{}).(*fleettest.Hub)
	hub.Put(fleetdoc.Of(service))
	hub.PutIfAbsent(fleetdoc.Of(&fleetv1.Cluster{Metadata: &typev1.Metadata{Name: service.GetSpec().GetCluster()}}))
}

// putCluster stores a cluster in a state that its agent reported: cluster NAME
// connected|offline|calm|counted|outdated|newer.
func putCluster(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: cluster NAME STATE")
	}
	before := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }
	status := &fleetv1.ClusterStatus{
		Enrolled: true, Connected: true, LastSeenAt: before(510 * time.Second), Services: 4, ServicesHealthy: 4,
		Report: &distributorv1.ClusterReport{
			AgentVersion: "v0.5.0", KubernetesVersion: "v1.36.3", Nodes: 3, StartedAt: before(73 * time.Hour),
			Capabilities: []string{"leader-election", "overview"},
			Lock:         &distributorv1.ClusterLock{Local: true, AllowedAccounts: []string{"team-a/deployer", "team-b/*"}},
			Overview: &distributorv1.ClusterOverview{
				Nodes: &distributorv1.NodesOverview{
					Count: 3, Ready: 2, Cordoned: 1, KubeletVersions: map[string]int32{"v1.36.2": 1, "v1.36.3": 2},
					Capacity:    &distributorv1.ResourceTotals{CpuMillis: 12000, MemoryBytes: 48 << 30, Pods: 330},
					Allocatable: &distributorv1.ResourceTotals{CpuMillis: 11760, MemoryBytes: 46<<30 + 512<<20, Pods: 330},
				},
				Pods: &distributorv1.PodsOverview{Pending: 2, Running: 40, Succeeded: 3, Failed: 1},
				Warnings: &distributorv1.WarningsOverview{Count: 12, Latest: []*distributorv1.ClusterWarning{
					{
						Reason: "FailedScheduling", Kind: "Pod", Namespace: "shop", Name: "web-0", Times: 7, LastSeenAt: before(330 * time.Second),
						Message: "0/3 nodes are available:\n\x1b[31m2 Insufficient memory.",
					},
					{Reason: "NodeNotReady", Kind: "Node", Name: "node-c", Times: 1, LastSeenAt: before(2 * time.Hour), Message: "Node is not ready"},
				}},
			},
		},
	}
	switch overview := status.GetReport().GetOverview(); args[1] {
	case "connected":
	case "offline":
		status.Connected = false
	case "calm":
		status.Report.Lock = &distributorv1.ClusterLock{Hub: true}
		overview.Nodes = &distributorv1.NodesOverview{
			Count: 1, Ready: 1, Capacity: &distributorv1.ResourceTotals{CpuMillis: 250, MemoryBytes: 1000, Pods: 4},
		}
		overview.Pods, overview.Warnings = &distributorv1.PodsOverview{}, &distributorv1.WarningsOverview{}
	case "counted":
		status.Report = &distributorv1.ClusterReport{AgentVersion: "v0.4.0", KubernetesVersion: "v1.35.0", Nodes: 3}
	case "outdated":
		status.Report = &distributorv1.ClusterReport{AgentVersion: "v0.4.0", KubernetesVersion: "v1.35.0", Nodes: 3}
		status.AgentSkew = &fleetv1.AgentSkew{Message: "the agent is too old; upgrade it"}
	case "newer":
		status.AgentSkew = &fleetv1.AgentSkew{Newer: true, Message: "the agent is newer\x1b[31m;\nupgrade the hub"}
	default:
		ts.Fatalf("unknown state %q", args[1])
	}
	ts.Value(hubKey{}).(*fleettest.Hub).Put(fleetdoc.Of(&fleetv1.Cluster{Metadata: &typev1.Metadata{Name: args[0]}, Status: status}))
}

// putHistory gives a service three revisions: history NAME.
func putHistory(ts *testscript.TestScript, _ bool, args []string) {
	commits := func(c string) []string { return []string{strings.Repeat(c, 40)} }
	planned := time.Now().Add(-630 * time.Second)
	ts.Value(hubKey{}).(*fleettest.Hub).PutHistory(args[0],
		&fleetv1.Revision{
			Number: 3, Commits: commits("c"), PlannedAt: timestamppb.New(planned), Outcome: fleetv1.RevisionOutcome_REVISION_OUTCOME_FAILED,
			Problem: &typev1.Problem{Reason: errorsv1.Reason_REASON_APPLY_REJECTED, Message: "Deployment web: no"},
			Timings: &distributorv1.Timings{
				Download: durationpb.New(1234 * time.Millisecond), Render: durationpb.New(3456 * time.Microsecond), RenderWait: durationpb.New(4 * time.Second),
			},
		},
		&fleetv1.Revision{
			Number: 2, Commits: commits("b"), PlannedAt: timestamppb.New(planned.Add(-time.Hour)), Outcome: fleetv1.RevisionOutcome_REVISION_OUTCOME_SUPERSEDED,
		},
		&fleetv1.Revision{
			Number: 1, Commits: commits("a"), PlannedAt: timestamppb.New(planned.Add(-72 * time.Hour)), Outcome: fleetv1.RevisionOutcome_REVISION_OUTCOME_HEALTHY,
			Timings: &distributorv1.Timings{
				Download: durationpb.New(20 * time.Millisecond), Render: durationpb.New(2 * time.Millisecond), RenderWait: durationpb.New(time.Millisecond), Apply: durationpb.New(12345 * time.Millisecond),
				Healthy: durationpb.New(83 * time.Second), ArrivedAt: timestamppb.New(planned.Add(-72*time.Hour + 250*time.Millisecond)),
			},
			TraceId: "4bf92f3577b34da6a3ce929d0e0e4736", TraceUrl: "https://jaeger.example.com/trace/4bf92f3577b34da6a3ce929d0e0e4736",
			FetchBeganAt: timestamppb.New(planned.Add(-72*time.Hour - 2*time.Second)), FetchDuration: durationpb.New(1500 * time.Millisecond),
		})
}

// setTunnel sets whether the hub has a tunnel, which is the hub itself: tunnel on, or tunnel off.
func setTunnel(ts *testscript.TestScript, _ bool, args []string) {
	hub := ts.Value(hubKey{}).(*fleettest.Hub)
	hub.SetTunnel(map[string]string{"on": hub.URL + "/", "off": ""}[args[0]])
}

// setProvider gives the hub an identity provider: provider NAME [PAGE].
func setProvider(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value(hubKey{}).(*fleettest.Hub).SetProvider(args[0], strings.Join(args[1:], ""))
}

// TestSignInPage compares docs/guides/sign-in.md with the example that the scripts apply.
func TestSignInPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/guides/sign-in.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../../examples/sign-in/corp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("```yaml\n"+string(example)+"```")) {
		t.Errorf("docs/guides/sign-in.md does not show\n%s", example)
	}
}

// checkMode compares a file's permissions: mode 0600 FILE.
func checkMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := "0" + info.Mode().Perm().String(); got != "0-rw-------" && args[0] == "0600" {
		ts.Fatalf("%s: got mode %s, want %s", args[1], info.Mode().Perm(), args[0])
	}
}
