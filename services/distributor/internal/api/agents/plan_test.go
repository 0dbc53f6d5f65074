// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace/noop"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/agents"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// store holds a catalog of one cluster, and counts what it is asked. Calls that the test does not
// expect have no implementation: they panic, and the call fails.
type store struct {
	fleet.Store

	changes catalog.Changes
	calls   atomic.Int64
}

func (s *store) Changes(_ context.Context, since int64) (catalog.Changes, error) {
	s.calls.Add(1)
	if since >= s.changes.Revision {
		return catalog.Changes{Revision: since}, nil
	}
	return s.changes, nil
}

func (s *store) LoadSnapshots(context.Context) (map[catalog.Source]catalog.Resolution, error) {
	s.calls.Add(1)
	return map[catalog.Source]catalog.Resolution{}, nil
}

func (s *store) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func source(i int) catalog.Source {
	return catalog.Source{Repository: "mono", Path: fmt.Sprint("app", i)}
}

// hub is DistributorService over a live view, with neither database nor gitcache.
type hub struct {
	store  *store
	view   *fleet.View
	plans  *fanout.Hub[string]
	log    *lines
	server *rpctest.Server
	token  string
	// isCutOff is true while no new content comes to this replica.
	isCutOff atomic.Bool
}

// lines are the log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startHub has the cluster mill with that many services, all resolved.
func startHub(t *testing.T, services int) *hub {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{store: &store{}, plans: fanout.NewHub[string](0), log: &lines{}}
	h.store.changes = catalog.Changes{Revision: 1, Clusters: []*catalog.Cluster{{
		Metadata: catalog.Metadata{Name: "mill", UID: "uid-mill"}, Agent: catalog.Agent{PublicKey: public, KeyGeneration: 1},
	}}}
	for i := range services {
		name := fmt.Sprint("app", i)
		h.store.changes.Services = append(h.store.changes.Services, &catalog.Service{
			Metadata: catalog.Metadata{Name: name, UID: "uid-" + name},
			Spec:     catalog.ServiceSpec{Cluster: "mill", Sources: []catalog.Source{source(i)}},
		})
	}
	logger := slog.New(slog.NewTextHandler(h.log, nil))
	objects := fanout.NewHub[catalog.Key](0)
	h.view = fleet.New(fleet.Params{
		Store: h.store, Logger: logger, Tracer: noop.NewTracerProvider().Tracer(""), Plans: h.plans, Objects: objects, PollInterval: time.Second,
	})
	if err := h.view.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range services {
		h.set(t, i, "one")
	}
	issuer := identity.NewIssuer(key)
	h.token, _, err = issuer.Issue(identity.Identity{Kind: identity.KindCluster, Name: "mill", UID: admission.IdentityUID("uid-mill", 1)}, identity.ServiceDistributor, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	rpcs, err := rpc.NewServer(rpc.ServerParams{Telemetry: telemetry.Noop(), Logger: logger, Verifier: issuer.Verifier(identity.ServiceDistributor)})
	if err != nil {
		t.Fatal(err)
	}
	_, handler := distributorv1connect.NewDistributorServiceHandler(agents.New(agents.Deps{
		View: h.view, Issuer: issuer, Plans: h.plans, IsCutOff: h.isCutOff.Load,
		Replay: admission.NewReplay(time.Minute), PollInterval: 2 * time.Minute,
		Streams: admission.NewGate(1000), Openings: admission.NewPace(time.Second, 100), Seats: admission.NewSeats(100), Departures: admission.NewLine(1000),
	}), rpcs.Options()...)
	h.server = rpctest.Start(serve.CutStalled(handler, 30*time.Second))
	return h
}

// set changes the content of a service.
func (h *hub) set(t *testing.T, service int, content string) {
	t.Helper()
	h.view.Resolved(t.Context(), source(service), catalog.Resolution{
		Snapshot: &catalog.Snapshot{Commit: content, Digest: digest.FromBytes([]byte(content))},
	}, nil)
}

func (h *hub) stop(t *testing.T) {
	t.Helper()
	if err := h.server.Close(); err != nil {
		t.Error(err)
	}
}

func (h *hub) client(t *testing.T, options ...connect.ClientOption) distributorv1connect.DistributorServiceClient {
	t.Helper()
	c, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: rpctest.BaseURL, Tokens: identity.StaticToken(h.token), Telemetry: telemetry.Noop(), Transport: h.server.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return distributorv1connect.NewDistributorServiceClient(c.HTTP, c.BaseURL, append(c.Options, options...)...)
}

// TestUnchangedCostsNoOtherSystem polls a thousand times, by one way after the other: nothing is
// asked of the database or of gitcache.
func TestUnchangedCostsNoOtherSystem(t *testing.T) {
	t.Parallel()
	h := startHub(t, 3)
	defer h.stop(t)
	ways := []distributorv1connect.DistributorServiceClient{h.client(t), h.client(t, connect.WithHTTPGet()), h.client(t, connect.WithGRPC())}
	plan, err := ways[0].GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	one, err := ways[0].GetDigest(t.Context(), &distributorv1.GetDigestRequest{Service: "app1"})
	if err != nil {
		t.Fatal(err)
	}
	before := h.store.calls.Load()
	for i := range 1000 {
		way := ways[i%len(ways)]
		res, err := way.GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: plan.GetPlan().GetVersion(), AcceptDelta: true})
		if err != nil || !res.GetUnchanged() || res.GetPlan() != nil || res.GetDelta() != nil {
			t.Fatalf("got %v, %v, want unchanged", res, err)
		}
		if i%10 > 0 {
			continue
		}
		h.pollByTag(t, plan.GetPlan().GetVersion())
		digest, err := way.GetDigest(t.Context(), &distributorv1.GetDigestRequest{Service: "app1", KnownDigest: one.GetDigest()})
		if err != nil || !digest.GetUnchanged() || digest.GetBundleDigests() != nil {
			t.Fatalf("got %v, %v, want unchanged", digest, err)
		}
	}
	if after := h.store.calls.Load(); after != before {
		t.Errorf("got %d calls of the store, want none", after-before)
	}
}

// pollByTag asks as a program does that knows HTTP alone: its version is in the entity tag.
func (h *hub) pollByTag(t *testing.T, version string) {
	t.Helper()
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("If-None-Match", `W/"plan.proto.`+version+`"`)
	_, err := h.client(t, connect.WithHTTPGet()).GetPlan(ctx, &distributorv1.GetPlanRequest{})
	if !connect.IsNotModifiedError(err) {
		t.Fatalf("got %v, want not modified", err)
	}
}

// TestACutOffReplicaIsLeft has no new content come to this replica. It sends its agents to another one at their
// next heartbeat. One that has just come stays for half a minute.
func TestACutOffReplicaIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHub(t, 1)
		defer h.stop(t)
		// left returns after how long the replica sent the agent away.
		left := func(cutOffAfter time.Duration) time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			timer := time.AfterFunc(cutOffAfter, func() { h.isCutOff.Store(true) })
			defer timer.Stop()
			stream, err := h.client(t).WatchPlan(ctx, &distributorv1.WatchPlanRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stream.Close() }()
			if receive(t, stream).GetPlan() == nil {
				t.Error("got no plan first")
			}
			if last := receive(t, stream); last.GetDrain().GetReconnectAfter().AsDuration() <= 0 {
				t.Errorf("got %v, want a drain", last)
			}
			took := time.Since(began)
			if stream.Receive() || stream.Err() != nil {
				t.Errorf("got %v, %v after the drain, want the end", stream.Msg(), stream.Err())
			}
			return took
		}
		if took := left(10 * time.Minute); took < 10*time.Minute || took > 10*time.Minute+20*time.Second {
			t.Errorf("sent away after %s, want it at the next heartbeat after ten minutes", took)
		}
		if took := left(0); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("sent away after %s, want it half a minute after it came", took)
		}
	})
}

// TestStalledWatcher has a real HTTP/2 client that lives but does not read. While it does not, a
// hundred changes are made: it finds one message that leads to the last of them. When it never
// reads again, its stream ends.
func TestStalledWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHub(t, 20)
		defer h.stop(t)
		// The stream's window takes next to nothing, so that the server's writes wait for the
		// reader.
		h.server.Transport().HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 16}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := h.client(t).WatchPlan(ctx, &distributorv1.WatchPlanRequest{AcceptDelta: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		synctest.Wait()
		for i := range 100 {
			h.set(t, i%7, fmt.Sprint("content ", i))
			synctest.Wait()
		}
		first, second := receive(t, stream).GetPlan(), receive(t, stream).GetDelta()
		current, _ := h.view.Plan("mill")
		if first == nil || second.GetFromVersion() != first.GetVersion() || second.GetToVersion() != current.Version || len(second.GetServices()) != 7 {
			t.Errorf("got %v, want a delta from the first plan to the last with the 7 services that changed", second)
		}
		h.set(t, 0, "the last")
		began := time.Now()
		for h.plans.Watchers() > 0 && time.Since(began) < time.Hour {
			<-time.After(time.Second)
		}
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("got the stream's end after %v, want 30 s", took)
		}
		if strings.Contains(h.log.String(), "level=ERROR") {
			t.Errorf("a client that does not read is no defect of ours:\n%s", h.log)
		}
	})
}

// TestQuickChangesOfALargePlanComeTogether changes one of a thousand services after the other, one each millisecond.
func TestQuickChangesOfALargePlanComeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const services = 1000
		h := startHub(t, services)
		defer h.stop(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := h.client(t).WatchPlan(ctx, &distributorv1.WatchPlanRequest{AcceptDelta: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		receive(t, stream)
		h.plans.Publish("mill") // without a change
		synctest.Wait()
		began := time.Now()
		go func() {
			for i := range services {
				h.set(t, i, "two")
				time.Sleep(time.Millisecond)
			}
		}()
		var after []time.Duration
		for changed := 0; changed < services; {
			changed += len(receive(t, stream).GetDelta().GetServices())
			after = append(after, time.Since(began))
		}
		quarter := 250 * time.Millisecond
		if want := []time.Duration{0, quarter, 2 * quarter, 3 * quarter, 4 * quarter}; !slices.Equal(after, want) {
			t.Errorf("got changes after %v, want the first at once and the others together, after %v", after, want)
		}
	})
}

func receive(t *testing.T, stream *connect.ServerStreamForClient[distributorv1.WatchPlanResponse]) *distributorv1.WatchPlanResponse {
	t.Helper()
	for stream.Receive() {
		if stream.Msg().GetHeartbeat() == nil {
			return stream.Msg()
		}
	}
	t.Fatalf("stream ended: %v", stream.Err())
	return nil
}
