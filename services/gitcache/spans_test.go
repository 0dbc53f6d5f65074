// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// collector is where replicas send their spans.
type collector struct {
	url string

	mu    sync.Mutex
	spans []*tracev1.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req tracecollector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &req) != nil {
			t.Errorf("got no spans from %s (%v)", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range req.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// one returns the only span of that name among those that is keeps.
func (c *collector) one(t *testing.T, name string, is func(*tracev1.Span) bool) *tracev1.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracev1.Span
	for _, s := range c.spans {
		if s.GetName() == name && is(s) {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d spans %q, want one", len(found), name)
	}
	return found[0]
}

func anyOf(*tracev1.Span) bool { return true }

// of keeps spans with that parent.
func of(parent *tracev1.Span) func(*tracev1.Span) bool {
	return func(s *tracev1.Span) bool {
		return string(s.GetParentSpanId()) == string(parent.GetSpanId()) && string(s.GetTraceId()) == string(parent.GetTraceId())
	}
}

// wantAttributes compares attributes as text; the value "*" is anything but nothing.
func wantAttributes(t *testing.T, s *tracev1.Span, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, a := range s.GetAttributes() {
		got[a.GetKey()] = a.GetValue().GetStringValue()
		if a.GetValue().GetStringValue() == "" {
			got[a.GetKey()] = fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	for key, value := range want {
		if got[key] != value && (value != "*" || got[key] == "" || got[key] == "0") {
			t.Errorf("%s: got %s=%q, want %q", s.GetName(), key, got[key], value)
		}
	}
}

// TestSpansHangTogether follows a push from its webhook to the event, and a call to the bundle that it built. It is not
// parallel: exporters are set up by the environment.
func TestSpansHangTogether(t *testing.T) {
	const webhookSecret = "the secret of one repository"
	sink := newCollector(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
	traced := func(cfg *gitcache.Config) { cfg.Telemetry.TracesExporter = "otlp" }

	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a": "1"})
	r := start(t, redis.URL(), t.TempDir(), traced)
	def := definition("demo", repo.URL())
	def.WebhookSecret = webhookSecret
	r.put(t, def)
	epoch := fmt.Sprint(r.state(t, "demo", ready).GetEpoch())
	pushed := repo.Commit(t, "main", map[string]string{"app/a": "2"})
	traceparent := r.traceOf(t, pushed, func() {
		if code := r.notify(t, webhookSecret, repo.URL(), pushed); code != http.StatusAccepted {
			t.Fatalf("got %d for a webhook, want 202", code)
		}
	})
	// A caller that traces nothing lets the replica decide; the usual client of tests tells it not to.
	plain := connection(t, r.url, "distributor")
	caller := gitcachev1connect.NewGitCacheServiceClient(plain.HTTP, plain.BaseURL)
	resolved, err := caller.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "app")})
	if err != nil {
		t.Fatal(err)
	}
	follower := start(t, redis.URL(), t.TempDir(), traced)
	eventually(t, func(ctx context.Context) error {
		_, err := dialReplica(t, follower.url, "gitcache").GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
		return err
	})
	follower.stop()
	r.stop()

	received := sink.one(t, "webhook.receive", anyOf)
	fetch := sink.one(t, "mirror.fetch", of(received))
	repository := map[string]string{"leat.repository": "demo", "leat.repository.uid": "uid-demo", "leat.epoch": epoch}
	wantAttributes(t, fetch, repository)
	if want := fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(fetch.GetTraceId()), hex.EncodeToString(fetch.GetSpanId())); traceparent != want {
		t.Errorf("got trace %s in the event, want the fetch's, %s", traceparent, want)
	}
	call := sink.one(t, "leat.gitcache.v1.GitCacheService/ResolveSnapshot", anyOf)
	resolve := sink.one(t, "snapshot.resolve", of(call))
	build := sink.one(t, "bundle.build", of(resolve))
	for _, span := range []*tracev1.Span{resolve, build} {
		wantAttributes(t, span, repository)
		wantAttributes(t, span, map[string]string{"leat.commit": pushed, "leat.digest": resolved.GetSnapshot().GetDigest()})
	}
	wantAttributes(t, sink.one(t, "mirror.copy", anyOf), map[string]string{
		"leat.repository": "demo", "leat.repository.uid": "uid-demo", "leat.epoch": "*", "leat.copy.from": r.url,
	})
}

// traceOf does something and returns the trace of the event that tells of its commit.
func (r *replica) traceOf(t *testing.T, commit string, do func()) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := r.WatchRepositories(ctx, &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	told := false
	for stream.Receive() {
		if stream.Msg().GetSynced() && !told {
			told = true
			do()
		}
		if e := stream.Msg().GetEvent(); told && len(e.GetChangedRefs()) > 0 {
			return e.GetTraceparent()
		}
	}
	t.Fatalf("got no event of %s: %v", commit, stream.Err())
	return ""
}
