// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/leatdev/leat/bench/internal/edge"
	"github.com/leatdev/leat/bench/internal/process"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

var thousandServices = flag.Int("thousand.services", 1000, "services of BenchmarkThousand, all on one cluster")

const (
	// thousandNamespace is where their objects are.
	thousandNamespace = "apps"
)

// BenchmarkThousand measures how long a cluster without services takes to have many, from the request that defines the
// first one until each is reported as ready, and what that costs: Leat's hub and agent with manifests and with charts,
// beside source-controller and kustomize-controller of Flux with the same manifests.
//
// A service has the objects of Flux's own benchmark (https://github.com/fluxcd/flux-benchmark): a Deployment without
// replicas, a Service, a ServiceAccount and an Ingress. All come from one repository, which spares Flux a thousand
// sources. Flux has the concurrency of that benchmark, and no limit of processor time or memory. The control plane, which
// is Kubernetes with its controllers, has the same two cores as they.
func BenchmarkThousand(b *testing.B) {
	b.Run("manifests/leat", func(b *testing.B) { thousandByLeat(b, manifestService) })
	b.Run("manifests/flux", thousandByFlux)
	b.Run("manifests/bare", thousandByNobody)
	b.Run("charts/leat", func(b *testing.B) { thousandByLeat(b, chartService) })
}

// thousandObjects are the objects of a service. The name is a template's action in a chart.
const thousandObjects = `apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME}
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{name: http, port: 9898, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 0
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      serviceAccountName: NAME
      containers:
        - name: app
          image: registry.example/app:1
          ports: [{name: http, containerPort: 9898}]
          resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
          readinessProbe: {httpGet: {path: /readyz, port: http}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: NAME}
spec:
  rules:
    - host: NAME.example
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: NAME, port: {name: http}}}}]}
`

func thousandName(i int) string { return fmt.Sprintf("app-%04d", i) }

// thousandFiles are a folder of manifests for each service, and a chart for all of them.
func thousandFiles() map[string]string {
	files := map[string]string{
		"chart/Chart.yaml":         "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"chart/values.yaml":        "name: app\n",
		"chart/templates/app.yaml": strings.ReplaceAll(thousandObjects, "NAME", "{{ .Values.name }}"),
	}
	for i := range *thousandServices {
		files[thousandName(i)+"/app.yaml"] = strings.ReplaceAll(thousandObjects, "NAME", thousandName(i))
	}
	return files
}

// manifestService has manifests of its own.
func manifestService(name string) *fleetv1.ServiceSpec {
	return &fleetv1.ServiceSpec{Sources: []*typev1.Source{{Repository: "apps", Path: name}}}
}

// chartService has the chart of all services, with values of its own.
func chartService(name string) *fleetv1.ServiceSpec {
	values := &structpb.Struct{Fields: map[string]*structpb.Value{"name": structpb.NewStringValue(name)}}
	return &fleetv1.ServiceSpec{
		Sources: []*typev1.Source{{Repository: "apps", Path: "chart"}},
		Render:  []*typev1.RenderStep{{Renderer: &typev1.RenderStep_Helm{Helm: &typev1.HelmStep{Values: values}}}},
	}
}

// thousandByLeat has a hub and an agent deliver the services.
func thousandByLeat(b *testing.B, spec func(name string) *fleetv1.ServiceSpec) {
	h := &hub{repository: gittest.New(b).Repo(b, "apps")}
	h.repository.Commit(b, "main", thousandFiles())
	h.startServices(b, "sqlite://"+filepath.Join(b.TempDir(), "leat.db"), "")
	cp := startThousand(b)
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	applyAll(b, fleet,
		fleetdoc.Of(&fleetv1.Cluster{Metadata: &typev1.Metadata{Name: clusterName(0)}}),
		fleetdoc.Of(&fleetv1.Repository{Metadata: &typev1.Metadata{Name: "apps"}, Spec: &fleetv1.RepositorySpec{Url: h.repository.URL()}}),
	)
	agent := startAgents(b, h, fleet, []*localkube.ControlPlane{cp}, 1)[0]
	poll(b, "the agent to connect", func() bool { return thousandCluster(b, fleet).GetConnected() })
	parts := map[string]*process.Process{"agent": agent, "distributor": h.distributor.Process, "gitcache": h.gitcache.Process}
	documents := make([]*fleetv1.Document, *thousandServices)
	for i := range documents {
		service := spec(thousandName(i))
		service.Cluster, service.Namespace = clusterName(0), thousandNamespace
		documents[i] = fleetdoc.Of(&fleetv1.Service{Metadata: &typev1.Metadata{Name: thousandName(i)}, Spec: service})
	}
	t := beginThousand(b, cp, parts)
	applyAll(b, fleet, documents...)
	t.awaitReady(b, func() int { return int(thousandCluster(b, fleet).GetServicesHealthy()) })
	t.report(b)
}

func thousandCluster(b *testing.B, fleet fleetv1connect.FleetServiceClient) *fleetv1.ClusterStatus {
	b.Helper()
	found, err := fleet.Get(b.Context(), &fleetv1.GetRequest{Kind: "Cluster", Name: clusterName(0)})
	if err != nil {
		b.Fatal(err)
	}
	return found.GetDocument().GetCluster().GetStatus()
}

// thousandByNobody applies the objects as fast as a client can that does nothing else: it has no inventory, asks for
// nothing, and does not wait until anything is ready. What the control plane takes for them is the limit of the others.
func thousandByNobody(b *testing.B) {
	cp := startThousand(b)
	collections := map[string]string{
		"ServiceAccount": "/api/v1/namespaces/" + thousandNamespace + "/serviceaccounts/", "Service": "/api/v1/namespaces/" + thousandNamespace + "/services/",
		"Deployment": "/apis/apps/v1/namespaces/" + thousandNamespace + "/deployments/", "Ingress": "/apis/networking.k8s.io/v1/namespaces/" + thousandNamespace + "/ingresses/",
	}
	t := beginThousand(b, cp, nil)
	var group errgroup.Group
	group.SetLimit(bareClients)
	for i := range *thousandServices {
		group.Go(func() error {
			for manifest := range strings.SplitSeq(strings.ReplaceAll(thousandObjects, "NAME", thousandName(i)), "---\n") {
				_, rest, _ := strings.Cut(manifest, "kind: ")
				kind, _, _ := strings.Cut(rest, "\n")
				status, answer, err := send(b.Context(), cp, http.MethodPatch, collections[kind]+thousandName(i)+"?fieldManager=bare&force=true", "application/apply-patch+yaml", manifest)
				if err != nil || status != http.StatusCreated {
					return fmt.Errorf("apply %s: status %d, %w\n%s", kind, status, err, answer)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	t.awaitReady(b, func() int { return *thousandServices })
	t.report(b)
}

const (
	// bareClients is how many objects are applied at once, as many as an agent does.
	bareClients = 8

	fluxSources  = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories"
	fluxServices = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations"
)

// thousandByFlux has the controllers of Flux deliver the services.
func thousandByFlux(b *testing.B) {
	home, storage, artifacts := program.Build(b, "flux"), b.TempDir(), loopback.Addr(b)
	repository := gittest.New(b).Repo(b, "apps")
	repository.Commit(b, "main", thousandFiles())
	cp := startThousand(b)
	definitions, err := filepath.Glob(filepath.Join(home, "crds", "*.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	for _, definition := range definitions {
		text, err := os.ReadFile(definition)
		if err != nil {
			b.Fatal(err)
		}
		createObject(b, cp, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(text))
	}
	createObject(b, cp, namespacesPath, "apiVersion: v1\nkind: Namespace\nmetadata: {name: flux-system}\n")
	poll(b, "the kinds of Flux", func() bool { return served(b, cp, fluxSources) && served(b, cp, fluxServices) })
	parts := map[string]*process.Process{}
	for name, args := range map[string][]string{
		"source-controller":    {"--storage-path", storage, "--storage-addr", artifacts, "--storage-adv-addr", artifacts, "--concurrent", "10"},
		"kustomize-controller": {"--concurrent", "20", "--requeue-dependency", "1s"},
	} {
		parts[name] = process.Start(b, process.Params{
			Binary: filepath.Join(home, name), Env: []string{"RUNTIME_NAMESPACE=flux-system", "KUBECONFIG=" + cp.KubeconfigPath()},
			Args: append(args, "--enable-leader-election=false", "--metrics-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0",
				"--log-level", "error", "--events-addr", ""),
		})
	}
	// As Leat's repository, the source is there before the first service.
	createObject(b, cp, fluxSources, fmt.Sprintf("apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\n"+
		"metadata: {name: apps, namespace: flux-system}\nspec: {url: %q, ref: {branch: main}, interval: 1h}\n", repository.URL()))
	var sources sync.Map
	watchObjects(b, cp, fluxSources, isReady(&sources))
	poll(b, "the source", func() bool { return size(&sources) == 1 })
	var services sync.Map
	watchObjects(b, cp, fluxServices, isReady(&services))

	t := beginThousand(b, cp, parts)
	for i := range *thousandServices {
		createObject(b, cp, fluxServices, fmt.Sprintf("apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"+
			"metadata: {name: %[1]s, namespace: flux-system}\n"+
			"spec: {sourceRef: {kind: GitRepository, name: apps}, path: ./%[1]s, targetNamespace: %[2]s, prune: true, wait: true, interval: 1h}\n",
			thousandName(i), thousandNamespace))
	}
	t.awaitReady(b, func() int { return size(&services) })
	t.report(b)
}

// isReady puts the name of each object into ready whose condition Ready is True.
func isReady(ready *sync.Map) func(object watched) {
	return func(object watched) {
		for _, condition := range object.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				ready.Store(object.Metadata.Name, true)
			}
		}
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

// startThousand starts a control plane with its controllers, and with the namespace of the services.
func startThousand(b *testing.B) *localkube.ControlPlane {
	b.Helper()
	cp := kubetest.Start(b, func(p *localkube.Params) { p.Simulated = true }) // Ingresses have addresses, as they need to be ready
	createObject(b, cp, namespacesPath, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+thousandNamespace+"}\n")
	return cp
}

// delivery is one way to deliver the services, while it is measured.
type delivery struct {
	begun     time.Time
	parts     map[string]*process.Process
	spent     map[string]time.Duration // before
	exist     sync.Map                 // names of Deployments
	complete  chan struct{}            // closed when all of them exist
	appliedAt time.Time                // when that was; read once complete is closed
	ready     time.Duration            // until each is reported as ready
	peaks     map[string]int64         // bytes of memory, with those of render workers
}

// beginThousand begins to measure.
func beginThousand(b *testing.B, cp *localkube.ControlPlane, parts map[string]*process.Process) *delivery {
	b.Helper()
	d := &delivery{parts: parts, spent: map[string]time.Duration{}, complete: make(chan struct{}), peaks: map[string]int64{}}
	var once sync.Once
	watchObjects(b, cp, "/apis/apps/v1/namespaces/"+thousandNamespace+"/deployments", func(object watched) {
		d.exist.Store(object.Metadata.Name, true)
		if size(&d.exist) == *thousandServices {
			once.Do(func() { d.appliedAt = time.Now(); close(d.complete) })
		}
	})
	for name, p := range parts {
		d.spent[name] = p.CPU(b)
	}
	d.begun = time.Now()
	return d
}

// awaitReady blocks until so many services are ready.
func (d *delivery) awaitReady(b *testing.B, ready func() int) {
	b.Helper()
	poll(b, "all services to be ready", func() bool {
		for name, p := range d.parts {
			now, _ := p.Memory(b)
			d.peaks[name] = max(d.peaks[name], now+p.Children(b))
		}
		return ready() == *thousandServices
	})
	d.ready = time.Since(d.begun)
	<-d.complete
}

func (d *delivery) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(d.appliedAt.Sub(d.begun).Seconds(), "s/applied")
	b.ReportMetric(d.ready.Seconds(), "s/ready")
	for name, p := range d.parts {
		b.ReportMetric((p.CPU(b) - d.spent[name]).Seconds(), name+"-cpu-s")
		_, highest := p.Memory(b)
		b.ReportMetric(float64(max(highest, d.peaks[name])>>20), name+"-peak-MiB")
	}
}
