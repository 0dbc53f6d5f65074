// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	agentmanifest "github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// world is the environment of an engine, in memory. It is enough of a cluster for tests of timing
// and order; the behaviour of an API server is tested with a real one.
type world struct {
	engine *reconcile.Engine
	spans  *tracetest.SpanRecorder

	// hooks; nil does nothing
	onApply  func(ctx context.Context, o *unstructured.Unstructured) error
	onAnswer func()
	onWatch  func([]observe.Collection)
	onDelete func(ctx context.Context, o inventory.Object) error
	onSave   func(inventory.Record) error

	renderer     render.Renderer // of all but plain manifests; nil: charts alone, by a stand-in for Helm
	factsChanged wake.Broadcast

	watcher   func(observe.Observation) // of every write of the engine's
	loadDelay time.Duration             // before fingerprints are read
	openDelay time.Duration             // before a bundle comes
	hubIsAway bool                      // no bundle comes

	mu           sync.Mutex
	objects      map[inventory.Key]*unstructured.Unstructured
	writes       int // counts and versions every write
	applied      []string
	deleted      []string
	bundles      map[digest.Digest][]byte
	bases        []digest.Digest // of the bundles that were opened
	records      map[string]inventory.Record
	statuses     map[string]report.Status
	phases       map[string][]report.Phase
	kinds        []observe.Collection
	saves        int // of inventories
	refusesSaves bool
	observed     []observedRun
	prints       map[string][]byte
	generated    map[string]render.Generated
	served       []string // versions and kinds
	factsAsked   int      // how often
	settings     reconcile.Settings
	lock         accounts.Lock
	variables    render.Variables
	reads        int                               // of objects
	followed     map[inventory.Key][]chan struct{} // told of every write
	logs         string
	symptom      string
	examined     int // how often symptoms were asked for
	rechecks     int
	configured   int           // how often a configuration was asked for
	accounts     []k8s.Account // in whose name a caller wanted to work
	log          diary         // of the agent
}

func newWorld(settings reconcile.Settings) *world {
	w := &world{
		spans:   tracetest.NewSpanRecorder(),
		objects: map[inventory.Key]*unstructured.Unstructured{}, bundles: map[digest.Digest][]byte{},
		records: map[string]inventory.Record{}, prints: map[string][]byte{}, generated: map[string]render.Generated{}, statuses: map[string]report.Status{}, phases: map[string][]report.Phase{},
	}
	w.settings = settings
	w.engine = w.newEngine()
	return w
}

func (w *world) newEngine() *reconcile.Engine {
	return reconcile.New(reconcile.Params{
		Render: render.Split{Others: w}, Facts: w, Generated: generatedIn{w},
		Cluster: w, Bundles: w, Configs: w, Inventories: inventories{w}, Reporter: w, Watches: w, Fingerprints: prints{w},
		Owner: func() string { return "us" }, Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans)).Tracer(""), Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Settings: w.settings,
		Lock: w.lock, Observer: w.observe,
	})
}

// observe is the engine's observer.
func (w *world) observe(_ context.Context, took time.Duration, spent execute.Spent, problem *reason.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observed = append(w.observed, observedRun{took, spent, problem != nil})
}

// observedRun is what the engine's observer received of a run.
type observedRun struct {
	took     time.Duration
	spent    execute.Spent
	isFailed bool
}

// Render implements render.Renderer.
func (w *world) Render(ctx context.Context, in render.Input) (render.Output, error) {
	if w.renderer == nil {
		engine := render.Engine{Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Helm: charts{}}}
		return engine.Render(ctx, in)
	}
	return w.renderer.Render(ctx, in)
}

// generatedIn is the store of what templates generate.
type generatedIn struct{ w *world }

// Load implements manifest.GeneratedStore.
func (g generatedIn) Load(_ context.Context, service string) (render.Generated, error) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	return g.w.generated[service], nil
}

// Save implements manifest.GeneratedStore.
func (g generatedIn) Save(_ context.Context, service string, values render.Generated) error {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if g.w.generated[service] = values; values == nil {
		delete(g.w.generated, service)
	}
	return nil
}

// FactsChanged implements manifest.Cluster.
func (w *world) FactsChanged() <-chan struct{} { return w.factsChanged.Next() }

// ClusterFacts implements manifest.Cluster.
func (w *world) ClusterFacts(context.Context) (render.ClusterFacts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.factsAsked++
	return render.ClusterFacts{KubernetesVersion: "v1.36.0", APIVersions: slices.Clone(w.served)}, nil
}

// run runs the engine until the test, which is in a synctest bubble, ends.
func (w *world) run(t *testing.T) {
	t.Helper()
	w.runUntil(t)
}

// runUntil runs the engine until stop is called, or the test ends.
func (w *world) runUntil(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	engine := w.engine
	go func() { done <- engine.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("engine ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// service returns a service of ConfigMaps, one for each name, in a bundle of its own.
func (w *world) service(t *testing.T, name string, objects ...string) plan.Service {
	t.Helper()
	files := map[string]string{"README.md": name}
	for _, object := range objects {
		kind, object, found := strings.Cut(object, ":")
		if !found {
			kind, object = "ConfigMap", kind
		}
		files[kind+object+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s}\n", kind, object)
	}
	return plan.Service{
		Name: name, UID: "uid-" + name, SpecDigest: "spec-" + name, Spec: plan.Spec{Prune: new(true)},
		Bundles: []plan.Bundle{{Digest: w.pack(t, files), Commit: "c1"}},
	}
}

func (w *world) pack(t *testing.T, files map[string]string) digest.Digest {
	t.Helper()
	var buffer bytes.Buffer
	b := bundle.NewWriter(&buffer, bundle.Limits{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := b.WriteFile(name, false, int64(len(files[name])), strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(buffer.Bytes())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bundles[d] = buffer.Bytes()
	return d
}

func (w *world) plan(services ...plan.Service) {
	w.engine.SetPlan(plan.Plan{Version: "v", Services: services})
}

func (w *world) status(service string) report.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.statuses[service]
}

func (w *world) count() (applied, deleted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.applied), len(w.deleted)
}

// As implements reconcile.Cluster.
func (w *world) As(account k8s.Account) (k8s.API, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accounts = append(w.accounts, account)
	return w, nil
}

// Namespaced implements reconcile.Cluster.
func (w *world) Namespaced(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	return kind.Kind != "Namespace" && kind.Kind != "ClusterRole", nil
}

// Get implements reconcile.Cluster.
func (w *world) Get(_ context.Context, ref inventory.Ref) (*unstructured.Unstructured, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if o, ok := w.objects[ref.Key]; ok {
		return o.DeepCopy(), nil
	}
	return nil, k8s.ErrNotFound
}

// List implements reconcile.Cluster.
func (*world) List(context.Context, schema.GroupVersionKind, string, int) ([]*unstructured.Unstructured, error) {
	return nil, k8s.ErrNotFound
}

// Apply implements reconcile.Cluster.
func (w *world) Apply(ctx context.Context, o *unstructured.Unstructured, options k8s.ApplyOptions) (*unstructured.Unstructured, error) {
	if w.onApply != nil {
		if err := w.onApply(ctx, o); err != nil {
			return nil, err
		}
	}
	if w.onAnswer != nil {
		defer w.onAnswer() // the write is there, and its answer on the way
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := inventory.RefOf(o).Key
	live := o.DeepCopy()
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: k8s.FieldManager}})
	w.writes++
	live.SetUID(types.UID(fmt.Sprintf("uid-%d", w.writes)))
	if before, ok := w.objects[key]; ok {
		live.SetUID(before.GetUID())
	}
	live.SetResourceVersion(fmt.Sprint(w.writes))
	own(live)
	if !options.DryRun {
		w.objects[key] = live
		w.applied = append(w.applied, key.Kind+"/"+key.Name)
		w.wrote(live)
		w.tell(key)
	}
	return live.DeepCopy(), nil
}

// CreateMissing implements reconcile.Cluster.
func (w *world) CreateMissing(
	ctx context.Context, o *unstructured.Unstructured, options k8s.ApplyOptions,
) (*unstructured.Unstructured, error) {
	if live, err := w.Get(ctx, inventory.RefOf(o)); err == nil {
		return live, nil
	}
	return w.Apply(ctx, o, options)
}

// Reown implements reconcile.Cluster.
func (w *world) Reown(_ context.Context, live *unstructured.Unstructured, _ []any) (*unstructured.Unstructured, error) {
	return live, nil
}

// AwaitDefined implements reconcile.Cluster.
func (w *world) AwaitDefined(context.Context, *unstructured.Unstructured) error { return nil }

// EnsureNamespace implements reconcile.Cluster.
func (w *world) EnsureNamespace(context.Context, string) error { return nil }

// Delete implements reconcile.Cluster.
func (w *world) Delete(ctx context.Context, object inventory.Object, _ k8s.DeleteOptions) (*unstructured.Unstructured, error) {
	if w.onDelete != nil {
		if err := w.onDelete(ctx, object); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	live, ok := w.objects[object.Key]
	if !ok {
		return nil, nil
	}
	if string(live.GetUID()) != object.UID {
		return nil, k8s.ErrReplaced
	}
	delete(w.objects, object.Key)
	w.tell(object.Key)
	w.deleted = append(w.deleted, object.Name)
	return nil, nil
}

// Contents implements reconcile.Cluster.
func (w *world) Contents(context.Context, inventory.Ref) ([]inventory.Object, error) { return nil, nil }

// Release implements reconcile.Cluster.
func (w *world) Release(_ context.Context, object inventory.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if live, ok := w.objects[object.Key]; ok {
		live.SetLabels(nil)
	}
	return nil
}

// Follow implements reconcile.Cluster.
func (w *world) Follow(ctx context.Context, ref inventory.Ref, see k8s.FollowFunc) {
	changed := make(chan struct{}, 1)
	w.mu.Lock()
	if w.followed == nil {
		w.followed = map[inventory.Key][]chan struct{}{}
	}
	w.followed[ref.Key] = append(w.followed[ref.Key], changed)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.followed[ref.Key] = slices.DeleteFunc(w.followed[ref.Key], func(c chan struct{}) bool { return c == changed })
	}()
	for {
		live, _ := w.Get(ctx, ref)
		see(live, nil)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// followers counts the followers of an object.
func (w *world) followers(k inventory.Key) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.followed[k])
}

// set puts an object into the cluster as another client would; nil removes it.
func (w *world) set(k inventory.Key, o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.objects, k); o != nil {
		w.objects[k] = o
	}
	w.tell(k)
}

// tell wakes the followers of an object. The caller holds w.mu.
func (w *world) tell(k inventory.Key) {
	for _, c := range w.followed[k] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Logs implements reconcile.Cluster.
func (w *world) Logs(context.Context, inventory.Object) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs, nil
}

// Symptoms implements reconcile.Cluster.
func (w *world) Symptoms(context.Context, inventory.Object) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.examined++
	return w.symptom, nil
}

// Open implements manifest.Bundles.
func (w *world) Open(_ context.Context, d, base digest.Digest) (io.ReadCloser, error) {
	takes(w.openDelay)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bases = append(w.bases, base)
	content, ok := w.bundles[d]
	switch {
	case w.hubIsAway:
		return nil, fmt.Errorf("no answer: %w", agentmanifest.ErrUnanswered)
	case !ok:
		return nil, errors.New("no such bundle")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Report implements reconcile.Reporter.
func (w *world) Report(s report.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses[s.Service] = s
	w.phases[s.Service] = append(w.phases[s.Service], s.Phase)
}

// Forget implements reconcile.Reporter.
func (w *world) Forget(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.statuses, service)
}

// Adopted implements reconcile.Reporter.
func (w *world) Adopted(string) {}

// Recheck implements reconcile.Watches: every object is judged and observed again.
func (w *world) Recheck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rechecks++
	for _, live := range w.objects {
		seen := sight(live)
		seen.Health = w.engine.Judge(live)
		go w.engine.Observe(seen)
	}
}

// Watch implements reconcile.Watches.
func (w *world) Watch(collections []observe.Collection) {
	w.mu.Lock()
	w.kinds = collections
	w.mu.Unlock()
	if w.onWatch != nil {
		w.onWatch(collections)
	}
}

// manifest is a ConfigMap.
func manifest(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// mark marks an inventory as a person would.
func (w *world) mark(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.records[service]
	record.Confirmed = true
	w.records[service] = record
}

type inventories struct{ *world }

func (i inventories) List(context.Context) ([]inventory.Record, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Values(i.records)), nil
}

func (i inventories) Save(_ context.Context, record inventory.Record) error {
	record.Objects = record.Objects.Clone()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.saves++
	if i.refusesSaves {
		return errors.New("no room")
	}
	if i.onSave != nil {
		if err := i.onSave(record); err != nil {
			return err
		}
	}
	i.records[record.Service] = record
	return nil
}

func (i inventories) Delete(_ context.Context, service string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.records, service)
	return nil
}
