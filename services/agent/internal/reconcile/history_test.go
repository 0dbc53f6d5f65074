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
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/clustertest"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// TestHistories runs random histories. People edit services and agree to prunes, others create,
// change and delete objects under the same names, the agent is killed and restarted, and any single
// call of the API fails. In every history the agent deletes only objects that it has created or
// adopted and that no annotation keeps, and never more than the guard allows. At rest, the
// inventories match the cluster. LEAT_FAULT_LONG=1 makes histories longer, and runs -rapid.checks
// of them.
func TestHistories(t *testing.T) {
	t.Parallel()
	longest, budget := 12, 20
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		longest, budget = 60, math.MaxInt
	}
	rapid.Check(t, func(rt *rapid.T) {
		if budget--; budget < 0 {
			return // enough for every day
		}
		live(t, rt, longest)
	})
}

// live runs one history in virtual time.
func live(t *testing.T, rt *rapid.T, longest int) {
	var failure any
	synctest.Test(t, func(*testing.T) {
		h := newHistory(t, rt)
		defer func() { failure = recover() }() // rapid's way to stop, which is for its own goroutine
		defer func() { h.kill() }()
		for range rapid.IntRange(5, longest).Draw(rt, "length") {
			h.step()
		}
		h.rest()
	})
	if failure != nil {
		panic(failure)
	}
}

// history is one run of TestHistories.
type history struct {
	test    *testing.T // a failed history cannot always be lived through a second time, so its story is told at once
	t       *rapid.T
	cluster *clusterMemory
	reports *reports
	kill    func()

	plan  map[string]*intent
	names []string // of objects
	faulty

	mu       sync.Mutex
	unagreed map[string]int // deletions since the service's latest complete run

	version   int
	departing map[string]int            // services that left the plan; not zero: with the plan that they came back in
	begun     map[string]map[string]int // the services that were departing when a call began
	broken    []string                  // promises

	log diary // of the agent, for people who have to find out why
}

// diary is a log that is printed only for failures.
type diary struct {
	mu    sync.Mutex
	lines []string
}

// Write implements io.Writer.
func (d *diary) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

// all returns the lines so far.
func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// show prints everything.
func (d *diary) show(t *testing.T) {
	t.Helper()
	t.Log("what happened:\n" + strings.Join(d.all(), "\n"))
}

// intent is the state of a service that people want.
type intent struct {
	objects      []string
	prune        bool
	detach       bool
	confirmation string
	confirmed    bool // ever
	edits        int
}

// faulty fails a call.
type faulty struct {
	in   int // after so many calls; negative: never
	late bool
}

func newHistory(t *testing.T, rt *rapid.T) *history {
	t.Helper()
	h := &history{
		test: t, t: rt, cluster: newClusterMemory(), reports: &reports{statuses: map[string]report.Status{}, bundles: map[digest.Digest][]byte{}},
		plan: map[string]*intent{}, unagreed: map[string]int{}, departing: map[string]int{}, begun: map[string]map[string]int{}, faulty: faulty{in: -1},
	}
	for i := range 14 {
		h.names = append(h.names, fmt.Sprintf("object-%d", i))
	}
	h.reports.adopted = h.adopted
	h.cluster.Fault, h.cluster.Deleting = h.fault, h.deleting
	h.start()
	return h
}

// start runs an agent on the cluster.
func (h *history) start() {
	ctx, cancel := context.WithCancel(context.Background())
	watches := h.cluster.Watches()
	engine := reconcile.New(reconcile.Params{
		Cluster: h.cluster, Bundles: h.reports, Inventories: h.cluster.Inventories(), Reporter: h.reports, Watches: watches, Facts: new(world),
		Logger: slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	var group sync.WaitGroup
	group.Go(func() { _ = engine.Run(ctx) })
	group.Go(func() { _ = watches.Run(ctx, engine) })
	h.kill = func() { cancel(); group.Wait() }
	h.reports.engine = engine
	h.hand()
}

// hand sends the plan to the agent.
func (h *history) hand() {
	var services []plan.Service
	for _, name := range slices.Sorted(maps.Keys(h.plan)) {
		i := h.plan[name]
		spec := plan.Spec{Prune: new(i.prune), PruneConfirmation: i.confirmation}
		spec.Policy.Deletion.Detach = i.detach
		services = append(services, plan.Service{
			Name: name, UID: "uid-" + name, SpecDigest: fmt.Sprint(name, i.edits), Spec: spec,
			Bundles: []plan.Bundle{{Digest: h.reports.pack(h.t, i.objects)}},
		})
	}
	h.mu.Lock()
	h.version++
	for service := range h.departing {
		if h.plan[service] != nil {
			h.departing[service] = h.version // until this plan is worked on, the agent may still be removing it
		}
	}
	version := fmt.Sprint(h.version)
	h.mu.Unlock()
	h.reports.engine.SetPlan(plan.Plan{Version: version, Services: services})
}

// adopted records from which plan on services that returned are no longer removed.
func (h *history) adopted(version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for service, back := range h.departing {
		if v, err := strconv.Atoi(version); err == nil && back > 0 && v >= back {
			delete(h.departing, service)
		}
	}
}

func (h *history) fault(_ context.Context, call string, done bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !done {
		h.begun[call] = maps.Clone(h.departing)
	} else {
		_, _ = fmt.Fprintf(&h.log, "%s %s\"", time.Now().Format(time.TimeOnly), call)
		if service, saved := strings.CutPrefix(call, "save inventory of "); saved {
			r, _ := h.cluster.Record(service)
			_, _ = fmt.Fprintf(&h.log, "stored of %s: base %d, pruned %d, %v\"", service, r.Base, r.Pruned, r.Objects.Objects())
		}
	}
	if strings.HasPrefix(call, "save inventory of ") && done {
		service := strings.TrimPrefix(call, "save inventory of ")
		if r, ok := h.cluster.Record(service); ok && !r.Touched {
			h.unagreed[service] = 0
		}
	}
	if service, gone := strings.CutPrefix(call, "delete inventory of "); gone && done {
		h.unagreed[service] = 0 // another service may use that name later
	}
	if h.in < 0 || done != h.late {
		return nil
	}
	h.in--
	if h.in >= 0 {
		return nil
	}
	return &reason.Problem{Reason: reason.ClusterUnreachable, Message: "is made to fail"}
}

// deleting checks every deletion by the agent against its promises.
func (h *history) deleting(o *unstructured.Unstructured, records map[string]inventory.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.cluster.AppliedByLeat(o.GetUID()) {
		h.broken = append(h.broken, fmt.Sprintf("deletes %s, which it has neither made nor adopted", o.GetName()))
	}
	if inventory.WishOf(o.GetAnnotations()) == inventory.Keep {
		h.broken = append(h.broken, fmt.Sprintf("deletes %s, which somebody wants kept", o.GetName()))
	}
	for service, r := range records {
		entry, held := r.Objects.Get(inventory.RefOf(o).Key)
		if !held || o.GetLabels()[k8s.ServiceLabel] != service {
			continue
		}
		i := h.plan[service]
		_, departing := h.begun["delete "+entry.String()][service]
		switch {
		case i == nil || departing: // the service is gone
		case entry.Agreed && !i.confirmed:
			h.broken = append(h.broken, fmt.Sprintf("takes the deletion of %s for agreed to", o.GetName()))
		case !entry.Agreed:
			h.unagreed[service]++
			if n, base := h.unagreed[service], max(r.Base, r.Objects.Len()); n >= 5 && n*100 > 30*base {
				h.broken = append(h.broken, fmt.Sprintf("deletes %d of %d objects of %s", n, base, service))
			}
		}
	}
}

// step performs one random action.
func (h *history) step() {
	t := h.t
	services := []string{"one", "two", "three"}
	service := rapid.SampledFrom(services).Draw(t, "service")
	key := inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: rapid.SampledFrom(h.names).Draw(t, "object")}
	switch rapid.SampledFrom([]string{
		"edit", "edit", "edit", "edit", "toggle", "remove", "rename", "confirm", "confirm", "create", "delete", "recreate", "impostor", "keep", "unlabel", "kill", "fail", "fail", "hold", "let go",
	}).Draw(t, "what") {
	case "edit":
		h.edit(service, rapid.SliceOfDistinct(rapid.SampledFrom(h.names), rapid.ID[string]).Draw(t, "objects"))
	case "toggle":
		if i := h.plan[service]; i != nil {
			i.prune, i.detach, i.edits = rapid.Bool().Draw(t, "prune"), rapid.Bool().Draw(t, "detach"), i.edits+1
		}
	case "remove":
		h.remove(service)
	case "rename":
		if i, other := h.plan[service], rapid.SampledFrom(services).Draw(t, "to"); i != nil && h.plan[other] == nil {
			h.remove(service)
			h.plan[other] = &intent{objects: i.objects, prune: i.prune}
		}
	case "confirm":
		if i := h.plan[service]; i != nil && h.reports.status(service).Guarded.Digest != "" {
			i.confirmation, i.confirmed, i.edits = h.reports.status(service).Guarded.Digest, true, i.edits+1
		}
	case "create":
		h.cluster.Create(clustertest.Object(key.Name, "", "theirs"))
	case "delete":
		h.cluster.Remove(key)
	case "recreate":
		if h.cluster.Remove(key) {
			h.cluster.Create(clustertest.Object(key.Name, "", "theirs"))
		}
	case "impostor": // with the label of a service
		if h.cluster.Remove(key) {
			h.cluster.Create(clustertest.Object(key.Name, service, "theirs"))
		}
	case "keep":
		h.cluster.Change(key, func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"leat.dev/prune": "disabled"}) })
	case "unlabel":
		h.cluster.Change(key, func(o *unstructured.Unstructured) { o.SetLabels(nil) })
	case "hold":
		h.cluster.Change(key, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.test/hold"}) })
	case "let go":
		h.letGo()
	case "kill":
		h.kill()
		h.start()
	case "fail":
		h.mu.Lock()
		h.faulty = faulty{in: rapid.IntRange(0, 12).Draw(t, "after"), late: rapid.Bool().Draw(t, "late")}
		h.mu.Unlock()
	}
	_, _ = fmt.Fprintf(&h.log, "%s now %s wants %v\"", time.Now().Format(time.TimeOnly), service, h.plan[service])
	h.hand()
	h.pass(rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second, 10 * time.Minute}).Draw(t, "pause"))
}

func (h *history) remove(service string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.plan[service] != nil {
		h.departing[service] = 0
	}
	delete(h.plan, service)
}

func (h *history) edit(service string, objects []string) {
	if h.plan[service] == nil {
		h.plan[service] = &intent{prune: true}
	}
	h.plan[service].objects = objects
}

func (h *history) letGo() {
	for key := range h.cluster.Live() {
		h.cluster.Change(key, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	}
}

// pass lets time pass. A pause of zero leaves actions half done.
func (h *history) pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
		synctest.Wait()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.broken) > 0 {
		h.log.show(h.test)
		h.test.Logf("the agent %s", strings.Join(h.broken, "; "))
		h.t.Fatalf("the agent %s", strings.Join(h.broken, "; "))
	}
}

// rest waits until nothing happens, and compares the inventories with the cluster.
func (h *history) rest() {
	h.mu.Lock()
	h.in = -1
	h.mu.Unlock()
	h.letGo()
	h.pass(3 * time.Hour) // more than any back-off or refresh
	live, holders := h.cluster.Live(), map[types.UID][]string{}
	for _, r := range h.cluster.Records() {
		if h.plan[r.Service] == nil {
			h.t.Errorf("service %s is gone, and its inventory is not: %v", r.Service, r.Objects.Objects())
		}
		for _, o := range r.Objects.Objects() {
			there := live[o.Key]
			if there != nil && h.knows(r.Service, o, there) {
				holders[there.GetUID()] = append(holders[there.GetUID()], r.Service)
			} else if !h.stuck(r.Service) {
				h.t.Errorf("the inventory of %s holds %s, which is not there", r.Service, o)
			}
		}
	}
	for key, o := range live {
		label := o.GetLabels()[k8s.ServiceLabel]
		if label == "" || !h.cluster.AppliedByLeat(o.GetUID()) {
			continue // not Leat's, or a client took the label off an object that waits for a confirmation
		}
		// The label changes only with an apply, which a failing service may not reach.
		if by := holders[o.GetUID()]; len(by) != 1 || by[0] != label && h.reports.status(by[0]).Phase == report.Healthy {
			h.t.Errorf("%s has the label of %s, and is in the inventories of %v", key, label, by)
		}
	}
	h.fulfilled()
	if h.t.Failed() {
		h.log.show(h.test)
		for _, service := range []string{"one", "two", "three"} {
			status := h.reports.status(service)
			h.t.Logf("service %s: wants %+v, is %s, %v", service, h.plan[service], status.Phase, status.Problem)
			if r, ok := h.cluster.Record(service); ok {
				h.t.Logf("its inventory: %v", r.Objects.Objects())
			}
		}
	}
}

// knows reports whether an entry of an inventory is about a live object. An entry without a UID was
// about to be created. If the answer to that got lost, the entry is about the object that has the
// label and was applied by Leat.
func (h *history) knows(service string, entry inventory.Object, live *unstructured.Unstructured) bool {
	if entry.UID == "" {
		return live.GetLabels()[k8s.ServiceLabel] == service && h.cluster.AppliedByLeat(live.GetUID())
	}
	return entry.UID == string(live.GetUID())
}

// stuck reports whether a service waits for people, and has not reached pruning.
func (h *history) stuck(service string) bool {
	s := h.reports.status(service)
	return s.Phase == report.Failed && (s.Problem.Reason == reason.ObjectClaimed || s.Problem.Reason == reason.ApplyConflict)
}

// fulfilled checks that healthy services have the objects that people want.
func (h *history) fulfilled() {
	live := h.cluster.Live()
	for service, i := range h.plan {
		status := h.reports.status(service)
		if h.stuck(service) || status.Phase == report.Failed && status.Problem.Reason == reason.PruneGuarded {
			continue
		}
		if status.Phase != report.Healthy {
			h.t.Errorf("service %s: got %s, %v, want it healthy", service, status.Phase, status.Problem)
		}
		for _, name := range i.objects {
			o := live[inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: name}]
			if o == nil || o.GetLabels()[k8s.ServiceLabel] != service {
				h.t.Errorf("service %s: %s is not there", service, name)
			}
		}
	}
}

// reports are the agent's collaborators besides a cluster.
type reports struct {
	engine  *reconcile.Engine
	adopted func(version string)

	mu       sync.Mutex
	statuses map[string]report.Status
	bundles  map[digest.Digest][]byte
}

func (r *reports) pack(t *rapid.T, objects []string) digest.Digest {
	var buffer bytes.Buffer
	w := bundle.NewWriter(&buffer, bundle.Limits{})
	for _, name := range slices.Sorted(slices.Values(objects)) {
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: ours}\n", name)
		if err := w.WriteFile(name+".yaml", false, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteFile("z-readme.md", false, 1, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(buffer.Bytes())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bundles[d] = buffer.Bytes()
	return d
}

func (r *reports) status(service string) report.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.statuses[service]
}

// Open implements manifest.Bundles.
func (r *reports) Open(_ context.Context, d, _ digest.Digest) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	content, ok := r.bundles[d]
	if !ok {
		return nil, errors.New("no such bundle")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Report implements reconcile.Reporter.
func (r *reports) Report(s report.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[s.Service] = s
}

// Forget implements reconcile.Reporter.
func (r *reports) Forget(service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.statuses, service)
}

// Adopted implements reconcile.Reporter.
func (r *reports) Adopted(version string) { r.adopted(version) }
