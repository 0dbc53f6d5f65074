// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

const joinToken = "join-me"

// hub is the agent's view of a hub: DistributorService and bundles over real HTTP, all state in
// memory.
type hub struct {
	distributorv1connect.UnimplementedDistributorServiceHandler

	address string
	server  *http.Server

	mu        sync.Mutex
	key       ed25519.PublicKey // nil: no agent is enrolled
	joins     map[string]bool   // join tokens that are good once
	enrolled  *distributorv1.EnrollRequest
	tokens    int    // how many access tokens were given out
	secret    string // is part of each access token
	plan      *distributorv1.Plan
	noStreams bool
	corrupt   bool
	cut       int // bodies to cut off in the middle
	bundles   map[string][]byte
	ranges    []string
	downloads []download
	streams   int
	polls     int
	tunnelURL string
	configs   map[string]*distributorv1.GetServiceConfigResponse // by service
	asked     int                                                // for configurations
	reports   map[string]*distributorv1.ServiceReport
	cluster   *distributorv1.ClusterReport // without its overview
	overview  *distributorv1.ClusterOverview
	instances []string      // of agents, in the order in which they reported, each as often as it came after another
	changed   chan struct{} // closed and replaced at every change
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{
		joins: map[string]bool{joinToken: true}, bundles: map[string][]byte{}, plan: &distributorv1.Plan{Cluster: "mill", Version: "v0"},
		overview: &distributorv1.ClusterOverview{},
		reports:  map[string]*distributorv1.ServiceReport{}, changed: make(chan struct{}),
	}
	h.listen(t, loopback.Addr(t))
	t.Cleanup(h.stop)
	return h
}

func (h *hub) url() string { return "http://" + h.address }

func (h *hub) listen(t testing.TB, address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(distributorv1connect.NewDistributorServiceHandler(h))
	mux.HandleFunc("GET /v1/bundles/{digest}", h.serveBundle)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	h.address = listener.Addr().String()
	h.server = &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	server := h.server
	go func() { _ = server.Serve(listener) }()
}

func (h *hub) stop() { _ = h.server.Close() }

// change changes state under the lock and wakes everybody who waits.
func (h *hub) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
	close(h.changed)
	h.changed = make(chan struct{})
}

// await waits for something that is read under the lock.
func (h *hub) await(t testing.TB, what string, ready func() bool) {
	t.Helper()
	ctx := await.Context(t)
	for {
		h.mu.Lock()
		ok, changed := ready(), h.changed
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Fatalf("waited in vain for %s; reports: %v", what, h.reports)
		}
	}
}

// awaitReport waits for a service's report to be as wanted.
func (h *hub) awaitReport(t testing.TB, service string, want func(*distributorv1.ServiceReport) bool) *distributorv1.ServiceReport {
	t.Helper()
	var got *distributorv1.ServiceReport
	h.await(t, "report of "+service, func() bool {
		got = h.reports[service]
		return got != nil && want(got)
	})
	return got
}

// deploy puts a service into the plan and returns its bundle's digest.
func (h *hub) deploy(t testing.TB, service string, files map[string]string) string {
	t.Helper()
	return h.deployAs(t, service, files, &distributorv1.ApplySpec{Prune: true})
}

// deployAs is deploy with other options.
func (h *hub) deployAs(t testing.TB, service string, files map[string]string, apply *distributorv1.ApplySpec) string {
	t.Helper()
	d, stored := pack(t, files)
	h.change(func() {
		h.bundles[d] = stored
		plan := proto.CloneOf(h.plan)
		plan.Services = slices.DeleteFunc(plan.GetServices(), func(s *distributorv1.PlanService) bool { return s.GetName() == service })
		plan.Services = append(plan.Services, &distributorv1.PlanService{
			Name: service, Uid: "uid-" + service, SpecDigest: "spec",
			Bundles: []*distributorv1.PlanBundle{{Digest: d, Commit: "abc", Repository: "demo", Path: "apps"}},
			Apply:   apply,
		})
		plan.Version = fmt.Sprintf("v%d", time.Now().UnixNano())
		h.plan = plan
	})
	return d
}

func pack(t testing.TB, files map[string]string) (string, []byte) {
	t.Helper()
	var content, stored bytes.Buffer
	w := bundle.NewWriter(&content, bundle.Limits{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteFile(name, false, int64(len(files[name])), strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := bundle.Compress(&stored)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(content.Bytes())
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return digest.FromBytes(content.Bytes()).String(), stored.Bytes()
}

func (h *hub) authorise(header http.Header) error {
	token, _ := identity.BearerToken(header)
	h.mu.Lock()
	defer h.mu.Unlock()
	if token == "" || token != fmt.Sprintf("access-%s%d", h.secret, h.tokens) {
		return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "token is not known")
	}
	return nil
}

// download is one answer of serveBundle.
type download struct {
	from  string
	delta bool
	bytes int
}

// difference returns the delta between two bundles, and nil where one of them is not known.
func difference(from, to string, bundles map[string][]byte) []byte {
	tarOf := func(d string) bundle.Tar {
		parsed, _ := digest.Parse(d)
		content, err := bundle.Decompress(bytes.NewReader(bundles[d]), 1<<30)
		if err != nil {
			return bundle.Tar{Digest: parsed, Content: bytes.NewReader(nil)}
		}
		return bundle.Tar{Digest: parsed, Content: content}
	}
	var out bytes.Buffer
	z, err := bundle.Compress(&out)
	if err != nil {
		return nil
	}
	err = bundle.WriteDelta(z, tarOf(from), tarOf(to), bundle.Limits{})
	if errors.Join(err, z.Close()) != nil {
		return nil
	}
	return out.Bytes()
}

func (h *hub) serveBundle(w http.ResponseWriter, r *http.Request) {
	if err := h.authorise(r.Header); err != nil {
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	h.mu.Lock()
	stored, ok := h.bundles[r.PathValue("digest")]
	from, mediaType := r.URL.Query().Get("from"), bundle.MediaType
	if delta := difference(from, r.PathValue("digest"), h.bundles); delta != nil && ok {
		stored, mediaType = delta, bundle.DeltaMediaType
	}
	corrupt, cut := h.corrupt, h.cut > 0
	h.cut--
	h.mu.Unlock()
	h.change(func() { h.ranges = append(h.ranges, r.Header.Get("Range")) })
	if !ok {
		rpcerr.WriteHTTP(w, r, rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND, "no such bundle"))
		return
	}
	if corrupt {
		_, stored = bytes.NewReader(nil), append(bytes.Clone(stored), 0)
		stored[len(stored)/2] ^= 0xff
	}
	h.change(func() {
		h.downloads = append(h.downloads, download{from: from, delta: mediaType == bundle.DeltaMediaType, bytes: len(stored)})
	})
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("ETag", fmt.Sprintf("%q", digest.FromBytes(stored).Hex()))
	if cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(stored)))
		_, _ = w.Write(stored[:len(stored)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(stored))
}

// Enroll implements DistributorService.
func (h *hub) Enroll(_ context.Context, r *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.joins[r.GetJoinToken()] {
		return nil, rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_JOIN_TOKEN_INVALID, "join token is used up")
	}
	delete(h.joins, r.GetJoinToken())
	h.key, h.enrolled = r.GetPublicKey(), r
	return &distributorv1.EnrollResponse{Cluster: "mill", ClusterUid: "uid-mill", TunnelUrl: h.tunnelURL}, nil
}

// RefreshToken implements DistributorService.
func (h *hub) RefreshToken(ctx context.Context, r *distributorv1.RefreshTokenRequest) (*distributorv1.RefreshTokenResponse, error) {
	h.mu.Lock()
	key := h.key
	h.mu.Unlock()
	_, _, err := identity.VerifyAssertion(ctx, r.GetAssertion(), func(context.Context, string) (ed25519.PublicKey, error) { return key, nil })
	if err != nil || key == nil {
		return nil, rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_CLUSTER_KEY_REJECTED, "key is not known")
	}
	response := &distributorv1.RefreshTokenResponse{ExpireTime: timestamppb.New(time.Now().Add(time.Hour))}
	h.change(func() {
		h.tokens++
		response.AccessToken, response.TunnelUrl = fmt.Sprintf("access-%s%d", h.secret, h.tokens), h.tunnelURL
	})
	return response, nil
}

// GetPlan implements DistributorService.
func (h *hub) GetPlan(ctx context.Context, r *distributorv1.GetPlanRequest) (*distributorv1.GetPlanResponse, error) {
	if err := h.caller(ctx); err != nil {
		return nil, err
	}
	response := &distributorv1.GetPlanResponse{PollInterval: durationpb.New(50 * time.Millisecond)}
	h.change(func() {
		h.polls++
		if response.Unchanged = h.plan.GetVersion() == r.GetKnownVersion(); !response.GetUnchanged() {
			response.Plan = h.plan
		}
	})
	return response, nil
}

// WatchPlan implements DistributorService.
func (h *hub) WatchPlan(
	ctx context.Context, r *distributorv1.WatchPlanRequest, stream *connect.ServerStream[distributorv1.WatchPlanResponse],
) error {
	if err := h.caller(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	refused := h.noStreams
	h.streams++
	h.mu.Unlock()
	if refused {
		return rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED, "no streams here")
	}
	known := r.GetKnownVersion()
	for {
		h.mu.Lock()
		plan, changed := h.plan, h.changed
		h.mu.Unlock()
		if plan.GetVersion() != known {
			if err := stream.Send(&distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Plan{Plan: plan}}); err != nil {
				return err
			}
			known = plan.GetVersion()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// ReportStatus implements DistributorService.
func (h *hub) ReportStatus(ctx context.Context, r *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
	if err := h.caller(ctx); err != nil {
		return nil, err
	}
	h.change(func() {
		if r.GetFull() {
			clear(h.reports)
		}
		for _, report := range r.GetServices() {
			h.reports[report.GetService()] = report
		}
		if n := len(h.instances); n == 0 || h.instances[n-1] != r.GetInstance() {
			h.instances = append(h.instances, r.GetInstance())
		}
		h.describe(r)
	})
	return &distributorv1.ReportStatusResponse{}, nil
}

// describe takes in a report's part about the cluster. h.mu is held.
func (h *hub) describe(r *distributorv1.ReportStatusRequest) {
	if r.GetFull() {
		h.overview = &distributorv1.ClusterOverview{}
	}
	if r.GetCluster() == nil {
		return
	}
	h.cluster = r.GetCluster()
	o := h.cluster.GetOverview()
	if o.GetNodes() != nil {
		h.overview.Nodes = o.GetNodes()
	}
	if o.GetPods() != nil {
		h.overview.Pods = o.GetPods()
	}
	if o.GetWarnings() != nil {
		h.overview.Warnings = o.GetWarnings()
	}
}

func (h *hub) caller(ctx context.Context) error {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return errors.New("no call info")
	}
	return h.authorise(info.RequestHeader())
}
