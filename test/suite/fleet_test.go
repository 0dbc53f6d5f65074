// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// clusters is how many clusters the fleet of TestHundredClustersShareOneChart has.
const clusters = 100

// simulated is an agent without a cluster: it enrols, reports what it can do, follows its plan,
// downloads what the plan names, and renders it with the agent's engine.
type simulated struct {
	cluster string
	url     string
	key     ed25519.PrivateKey
	token   string
	service distributorv1connect.DistributorServiceClient
}

// deployed lists the objects that a simulated agent would apply.
type deployed struct {
	digest string
	data   map[string]any // of the chart's one ConfigMap
	err    error
}

// TestHundredClustersShareOneChart gives 100 clusters one chart, each with values, labels and a
// secret of its own. The archive leaves its repository once and gitcache once, every cluster has
// the same bundle, and the objects differ exactly by the values.
func TestHundredClustersShareOneChart(t *testing.T) {
	h := startContent(t, nil)
	h.waitReady(t, h.gitcache, h.distributor)
	charts := startCharts(t)
	charts.publish(t, "1.2.0")
	charts.publish(t, "1.2.5")
	documents := []*fleetv1.Document{{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "charts"}, Spec: &fleetv1.RepositorySpec{
			Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, Url: charts.URL, PollInterval: durationpb.New(24 * time.Hour),
		},
	}}}}
	for i := range clusters {
		documents = append(documents, shopOf(t, i)...)
	}
	h.apply(t, documents...)

	got := make([]deployed, clusters)
	engine := renderers.Engine(render.Limits{})
	var group sync.WaitGroup
	for i := range clusters {
		joined, err := h.fleet.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: clusterName(i)})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { got[i] = h.simulate(t.Context(), clusterName(i), joined.GetJoinToken(), engine) })
	}
	group.Wait()

	for i, d := range got {
		if d.err != nil {
			t.Fatalf("%s: %v", clusterName(i), d.err)
		}
		if d.digest != got[0].digest {
			t.Errorf("%s has the bundle %s, want that of the first cluster, %s", clusterName(i), d.digest, got[0].digest)
		}
		want := map[string]any{
			"chart": "1.2.5", "color": colorOf(i), "region": regionOf(i), "script": "${HOME}",
			"password": base64.StdEncoding.EncodeToString([]byte(passwordOf(i))),
		}
		if diff := cmp.Diff(want, d.data); diff != "" {
			t.Errorf("%s (-want +got):\n%s", clusterName(i), diff)
		}
	}
	charts.mu.Lock()
	fetched := charts.fetched
	charts.mu.Unlock()
	if fetched != 1 {
		t.Errorf("archives were fetched %d times from the repository, want once", fetched)
	}
	if n := h.calls(t, gitcachev1connect.GitCacheServiceDownloadBundleProcedure); n != 1 {
		t.Errorf("gitcache was asked for %d bundles, want one", n)
	}
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%03d", i) }
func colorOf(i int) string     { return fmt.Sprintf("#%06x", i*7919) }
func passwordOf(i int) string  { return fmt.Sprintf("hunter-%d", i) }

// regionOf returns the label of a cluster: several clusters share one.
func regionOf(i int) string { return []string{"eu", "us", "ap"}[i%3] }

// shopOf returns a cluster, and the service that is its own.
func shopOf(t *testing.T, i int) []*fleetv1.Document {
	t.Helper()
	values, err := structpb.NewStruct(map[string]any{"color": colorOf(i)})
	if err != nil {
		t.Fatal(err)
	}
	cluster := &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: clusterName(i), Labels: map[string]string{"region": regionOf(i)}}}
	shop := &fleetv1.Service{
		Metadata: &typev1.Metadata{Name: clusterName(i) + "-shop"},
		Spec: &fleetv1.ServiceSpec{
			Cluster: clusterName(i), Namespace: "shop", Config: &fleetv1.ServiceConfig{Secrets: map[string]string{"PASSWORD": passwordOf(i)}},
			Sources: []*typev1.Source{{Repository: "charts", Chart: "web", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "~1.2"}}}},
			Render: []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{
				Values: values, Parameters: map[string]string{"password": "${PASSWORD}"}, FactsAt: "facts",
			}}}},
		},
	}
	return []*fleetv1.Document{{Object: &fleetv1.Document_Cluster{Cluster: cluster}}, {Object: &fleetv1.Document_Service{Service: shop}}}
}

// simulate runs an agent until it has rendered its one service.
func (h *hub) simulate(ctx context.Context, cluster, joinToken string, engine *render.Engine) deployed {
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	a := &simulated{cluster: cluster, url: h.distributor.url()}
	a.service = distributorv1connect.NewDistributorServiceClient(http.DefaultClient, a.url)
	if err := a.enrol(ctx, joinToken); err != nil {
		return deployed{err: fmt.Errorf("enrol: %w", err)}
	}
	plan, err := a.planned(ctx)
	if err != nil {
		return deployed{err: fmt.Errorf("follow the plan: %w", err)}
	}
	return a.render(ctx, plan, engine)
}

// as adds the agent's token to a call.
func (a *simulated) as(ctx context.Context) context.Context {
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("Authorization", "Bearer "+a.token)
	return ctx
}

// enrol makes the agent known to the hub, with what it can do.
func (a *simulated) enrol(ctx context.Context, joinToken string) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	a.key = private
	if err := patiently(ctx, func(ctx context.Context) error {
		_, err := a.service.Enroll(ctx, &distributorv1.EnrollRequest{JoinToken: joinToken, PublicKey: public})
		return err
	}); err != nil {
		return err
	}
	assertion, err := identity.SignAssertion(a.key, a.cluster)
	if err != nil {
		return err
	}
	if err := patiently(ctx, func(ctx context.Context) error {
		answer, err := a.service.RefreshToken(ctx, &distributorv1.RefreshTokenRequest{Assertion: assertion})
		a.token = answer.GetAccessToken()
		return err
	}); err != nil {
		return err
	}
	return patiently(ctx, func(ctx context.Context) error {
		_, err := a.service.ReportStatus(a.as(ctx), &distributorv1.ReportStatusRequest{
			Full: true, Instance: a.cluster, Sequence: 1,
			Cluster: &distributorv1.ClusterReport{KubernetesVersion: "v1.36.1", Capabilities: renderstep.Words(renderers.Kinds()...)},
		})
		return err
	})
}

// patiently repeats a call for as long as the hub asks the agent to come back later, as agents do.
func patiently(ctx context.Context, call func(context.Context) error) error {
	return backoff.Retry(ctx, backoff.Default(), func(ctx context.Context) error {
		err := call(ctx)
		if _, later := rpcerr.RetryDelay(err); later {
			return rpcerr.Paced(err)
		}
		return backoff.Permanent(err)
	})
}

// planned returns the first plan whose service has its content.
func (a *simulated) planned(ctx context.Context) (*distributorv1.Plan, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := a.service.WatchPlan(a.as(ctx), &distributorv1.WatchPlanRequest{})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	for stream.Receive() {
		plan := stream.Msg().GetPlan()
		if services := plan.GetServices(); len(services) == 1 && len(services[0].GetBundles()) == 1 {
			return plan, nil
		}
	}
	return nil, errors.Join(stream.Err(), errors.New("the stream ended"))
}

// render downloads and renders the service of a plan.
func (a *simulated) render(ctx context.Context, plan *distributorv1.Plan, engine *render.Engine) deployed {
	service := plan.GetServices()[0]
	source := service.GetBundles()[0]
	d := deployed{digest: source.GetDigest()}
	options, err := policywire.Planned(service.GetApply())
	if err != nil {
		return deployed{err: err}
	}
	in := render.Input{Facts: render.Facts{
		Cluster: render.ClusterFacts{Name: plan.GetCluster(), Labels: plan.GetFacts().GetLabels()},
		Service: render.ServiceFacts{Name: service.GetName(), Namespace: options.NamespaceOrDefault()},
	}}
	trees := render.Trees([]render.SourcePlace{{Mount: source.GetMount(), Folder: source.GetSubpath()}}, renderstep.Renderer(options.Renderer), options.Render)
	in.Folder, in.Steps = trees[0].Folder, trees[0].Steps
	if in.Files, err = a.download(ctx, d.digest); err != nil {
		return deployed{err: fmt.Errorf("download: %w", err)}
	}
	configured, err := a.service.GetServiceConfig(a.as(ctx), &distributorv1.GetServiceConfigRequest{
		Service: service.GetName(), ConfigDigest: service.GetConfigDigest(),
	})
	if err != nil {
		return deployed{err: fmt.Errorf("fetch configuration: %w", err)}
	}
	in.Variables = &render.Variables{Values: configured.GetValues(), Secrets: map[string]string{}}
	for name, value := range configured.GetSecrets() {
		in.Variables.Secrets[name] = string(value)
	}
	out, err := engine.Render(ctx, in)
	if err != nil {
		return deployed{err: err}
	}
	if len(out.Objects) != 1 {
		return deployed{err: fmt.Errorf("got %d objects, want one", len(out.Objects))}
	}
	d.data, _ = out.Objects[0].Object["data"].(map[string]any)
	return d
}

// download returns the files of a bundle, whose content it compares with the digest.
func (a *simulated) download(ctx context.Context, name string) (*render.Files, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1/bundles/"+name, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Accept-Encoding", "zstd")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	content, err := bundle.Decompress(response.Body, bundle.DefaultLimits().Bytes)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	packed, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(packed).String(); got != name {
		return nil, fmt.Errorf("the content is %s, want %s", got, name)
	}
	return render.Read(bundle.NewReader(bytes.NewReader(packed), bundle.Limits{}), render.Limits{})
}

// calls returns how many calls of a procedure gitcache has answered, according to its metrics.
func (h *hub) calls(t *testing.T, procedure string) int {
	t.Helper()
	return h.counted(t, "rpc_server_call_duration_seconds_count", procedure[1:])
}

// counted returns the sum of the values of gitcache's metric whose labels contain a text.
func (h *hub) counted(t *testing.T, metric, label string) int {
	t.Helper()
	code, metrics := get(t, http.DefaultClient, metricsOf(h.gitcache), "")
	if code != http.StatusOK {
		t.Fatalf("metrics of gitcache: got %d %s", code, metrics)
	}
	count, isCounting := 0, false
	for lines := bufio.NewScanner(strings.NewReader(metrics)); lines.Scan(); {
		name, labels, _ := strings.Cut(lines.Text(), "{")
		if name != metric {
			continue
		}
		isCounting = true
		if !strings.Contains(labels, label) {
			continue
		}
		n, err := strconv.Atoi(labels[strings.LastIndexByte(labels, ' ')+1:])
		if err != nil {
			t.Fatal(err)
		}
		count += n
	}
	if !isCounting {
		t.Fatalf("gitcache has no metric %s", metric)
	}
	return count
}
