// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// changingHub has a plan that changes, and keeps some of its latest versions.
type changingHub struct {
	planHub // enrols

	random *rand.Rand
	// faulty makes the hub cut responses, refuse streams and send wrong deltas.
	faulty atomic.Bool
	// deltas counts the sent deltas.
	deltas int

	mu      sync.Mutex
	plans   []*distributorv1.Plan // the current one last
	changed chan struct{}
}

func newChangingHub(seed uint64) *changingHub {
	return &changingHub{
		random: rand.New(rand.NewPCG(seed, 0)),
		plans:  []*distributorv1.Plan{{Cluster: "mill", Version: "v0"}}, changed: make(chan struct{}),
	}
}

func (h *changingHub) intN(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.IntN(n)
}

func (h *changingHub) current() *distributorv1.Plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plans[len(h.plans)-1]
}

// edit adds, changes, recreates or removes a service.
func (h *changingHub) edit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.plans[len(h.plans)-1]
	next := &distributorv1.Plan{Cluster: "mill", Version: last.GetVersion() + "+", Services: slices.Clone(last.GetServices())}
	if len(next.Version) > 40 {
		next.Version = fmt.Sprintf("v%d", h.random.Uint64())
	}
	name := fmt.Sprint("s", h.random.IntN(12))
	was := slices.IndexFunc(next.Services, func(s *distributorv1.PlanService) bool { return s.GetName() == name })
	if was >= 0 {
		next.Services = slices.Delete(next.Services, was, was+1)
	}
	if was < 0 || h.random.IntN(3) > 0 {
		text := fmt.Sprint(h.random.Uint64())
		next.Services = append(next.Services, &distributorv1.PlanService{
			Name: name, Uid: fmt.Sprint(h.random.IntN(3)), SpecDigest: text,
			Bundles: []*distributorv1.PlanBundle{{Digest: digest.FromBytes([]byte(text)).String(), Commit: text}},
		})
		slices.SortFunc(next.Services, func(a, b *distributorv1.PlanService) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	h.plans = append(h.plans, next)
	h.plans = h.plans[max(0, len(h.plans)-4):]
	close(h.changed)
	h.changed = make(chan struct{})
}

// change returns the message from a version to the current plan: a delta if the agent accepts one
// and the hub has the version.
func (h *changingHub) change(known string, deltas bool) (*distributorv1.Plan, *distributorv1.PlanDelta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := h.plans[len(h.plans)-1]
	i := slices.IndexFunc(h.plans, func(p *distributorv1.Plan) bool { return p.GetVersion() == known })
	if i < 0 || !deltas {
		return to, nil
	}
	h.deltas++
	delta := deltaOf(h.plans[i], to)
	if h.faulty.Load() && h.random.IntN(8) == 0 {
		spoil(delta, h.random.IntN(5))
	}
	return nil, delta
}

// deltaOf computes a delta by comparing each service with all the others.
func deltaOf(from, to *distributorv1.Plan) *distributorv1.PlanDelta {
	delta := &distributorv1.PlanDelta{FromVersion: from.GetVersion(), ToVersion: to.GetVersion(), Sum: plandelta.Sum(to.GetServices()...)}
	for _, s := range to.GetServices() {
		if !slices.ContainsFunc(from.GetServices(), func(o *distributorv1.PlanService) bool { return proto.Equal(s, o) }) {
			delta.Services = append(delta.Services, s)
		}
	}
	for _, s := range from.GetServices() {
		if !slices.ContainsFunc(to.GetServices(), func(o *distributorv1.PlanService) bool { return s.GetName() == o.GetName() }) {
			delta.Removed = append(delta.Removed, s.GetName())
		}
	}
	return delta
}

// spoil makes a delta wrong, each time in another way.
func spoil(delta *distributorv1.PlanDelta, way int) {
	switch way {
	case 0:
		delta.FromVersion = "another"
	case 1:
		delta.Sum = ""
	case 2:
		delta.Removed = append(delta.Removed, "stranger")
	case 3:
		delta.Services = append(delta.Services, &distributorv1.PlanService{Name: "zz"})
	case 4: // of the right shape, with a bundle that no agent can read
		delta.Services = append(delta.Services, &distributorv1.PlanService{Name: "zz", Bundles: []*distributorv1.PlanBundle{{Digest: "?"}}})
		delta.Sum = ""
	}
}

func (h *changingHub) GetPlan(_ context.Context, r *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	if r.GetKnownVersion() == h.current().GetVersion() {
		return &distributorv1.GetPlanResponse{Unchanged: true}, nil
	}
	plan, delta := h.change(r.GetKnownVersion(), r.GetAcceptDelta())
	return &distributorv1.GetPlanResponse{Plan: plan, Delta: delta}, nil
}

func (h *changingHub) WatchPlan(
	ctx context.Context, r *distributorv1.WatchPlanRequest, stream *connect.ServerStream[distributorv1.WatchPlanResponse],
) error {
	if h.faulty.Load() && h.intN(4) == 0 {
		return connect.NewError(connect.CodeUnavailable, nil)
	}
	sent := r.GetKnownVersion()
	beat := time.NewTicker(20 * time.Second)
	defer beat.Stop()
	for ctx.Err() == nil {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		message := &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Heartbeat{
			Heartbeat: &distributorv1.Heartbeat{Version: sent},
		}}
		if current := h.current().GetVersion(); current != sent {
			plan, delta := h.change(sent, r.GetAcceptDelta())
			message.Event = &distributorv1.WatchPlanResponse_Plan{Plan: plan}
			if delta != nil {
				message.Event = &distributorv1.WatchPlanResponse_Delta{Delta: delta}
			}
			sent = current
		}
		if err := stream.Send(message); err != nil {
			return err
		}
		beat.Reset(20 * time.Second)
		select {
		case <-changed:
		case <-beat.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// cutting serves like next, and cuts responses after some bytes, mostly in the middle of a message.
func (h *changingHub) cutting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case distributorv1connect.DistributorServiceEnrollProcedure, distributorv1connect.DistributorServiceRefreshTokenProcedure:
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&cutWriter{ResponseWriter: w, hub: h, left: h.intN(6000)}, r)
	})
}

type cutWriter struct {
	http.ResponseWriter
	hub  *changingHub
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if len(p) <= c.left || !c.hub.faulty.Load() {
		c.left = max(0, c.left-len(p))
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	c.Flush()
	panic(http.ErrAbortHandler) // what net/http takes as the wish to reset the stream
}

func (c *cutWriter) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

// followed is the Plans of an agent at a hub.
type followed struct {
	dir    string
	cancel context.CancelFunc
	done   chan error

	mu   sync.Mutex
	last plan.Plan
}

func follow(t *testing.T, client *http.Client, dir string) *followed {
	t.Helper()
	hub := distributorv1connect.NewDistributorServiceClient(client, "http://hub")
	logger := slog.New(slog.DiscardHandler)
	me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, JoinToken: "j", Hub: hub, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := me.Token(t.Context()); err != nil { // enrols, so that it knows its cluster
		t.Fatal(err)
	}
	f := &followed{dir: dir, done: make(chan error, 1)}
	plans := control.NewPlans(control.PlanParams{Dir: dir, Hub: hub, Identity: me, Logger: logger})
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	go func() {
		f.done <- plans.Run(ctx, func(p plan.Plan) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.last = p
		})
	}()
	return f
}

func (f *followed) stop(t *testing.T) {
	t.Helper()
	f.cancel()
	if err := <-f.done; err != nil {
		t.Errorf("plans ended: %v", err)
	}
}

// check compares the delivered and the stored plan with the hub's.
func (f *followed) check(t *testing.T, want *distributorv1.Plan) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(f.dir, "plan.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	kept := &distributorv1.Plan{}
	if err := proto.Unmarshal(content, kept); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, kept, protocmp.Transform()); diff != "" {
		t.Fatalf("plan on disk (-hub +agent):\n%s", diff)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var delivered, wanted []string
	for _, s := range f.last.Services {
		delivered = append(delivered, fmt.Sprint(s.Name, " ", s.UID, " ", s.SpecDigest, " ", s.Bundles[0].Digest))
	}
	for _, s := range want.GetServices() {
		wanted = append(wanted, fmt.Sprint(s.GetName(), " ", s.GetUid(), " ", s.GetSpecDigest(), " ", s.GetBundles()[0].GetDigest()))
	}
	if diff := cmp.Diff(wanted, delivered); diff != "" || f.last.Version != want.GetVersion() {
		t.Fatalf("delivered version %s, want %s (-hub +agent):\n%s", f.last.Version, want.GetVersion(), diff)
	}
}

// TestPlansThroughFaults makes 200 edits while streams and polls are cut at any byte, streams are
// refused, deltas are wrong and the agent is restarted. After the faults the agent always has the
// hub's plan.
func TestPlansThroughFaults(t *testing.T) {
	t.Parallel()
	for range 2 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { checkThroughFaults(t, newChangingHub(seed), dir) })
		})
	}
}

func checkThroughFaults(t *testing.T, h *changingHub, dir string) {
	t.Helper()
	_, handler := distributorv1connect.NewDistributorServiceHandler(h)
	server := rpctest.Start(h.cutting(handler))
	defer server.Close()
	for range 10 {
		h.faulty.Store(true)
		f := follow(t, server.Client(), dir)
		for range 20 {
			h.edit()
			pass(time.Duration(h.intN(3000)) * time.Millisecond)
		}
		h.faulty.Store(false)
		pass(2 * time.Minute)
		f.check(t, h.current())
		f.stop(t)
	}
	if h.deltas == 0 {
		t.Error("no delta was sent")
	}
}

// TestDeltaFromDisk restarts an agent with an earlier plan: the hub sends it the difference.
func TestDeltaFromDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newChangingHub(1)
		_, handler := distributorv1connect.NewDistributorServiceHandler(h)
		server := rpctest.Start(handler)
		defer server.Close()
		f := follow(t, server.Client(), dir)
		pass(time.Second)
		f.stop(t)
		synctest.Wait() // the hub's end of the stream would count a delta too
		h.edit()
		h.edit()
		f = follow(t, server.Client(), dir)
		pass(time.Second)
		f.check(t, h.current())
		f.stop(t)
		if h.deltas != 1 {
			t.Errorf("got %d deltas, want one", h.deltas)
		}
	})
}
