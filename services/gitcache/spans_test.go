// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/otlptest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// one returns the only span of that name that is keeps.
func one(t *testing.T, collected *otlptest.Collector, name string, is func(otlptest.Span) bool) otlptest.Span {
	t.Helper()
	var found []otlptest.Span
	for _, s := range collected.Spans() {
		if s.GetName() == name && is(s) {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d spans %q, want one", len(found), name)
	}
	return found[0]
}

func anyOf(otlptest.Span) bool { return true }

// of keeps spans with that parent.
func of(parent otlptest.Span) func(otlptest.Span) bool {
	return func(s otlptest.Span) bool { return s.Of(parent) }
}

// wantAttributes compares attributes as text; the value "*" is anything but nothing.
func wantAttributes(t *testing.T, s otlptest.Span, want map[string]string) {
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

// TestSpansHangTogether follows a push from its webhook to the event, and a call to the bundle that
// it built. It is not parallel: exporters are set up by the environment.
func TestSpansHangTogether(t *testing.T) {
	const webhookSecret = "the secret of one repository"
	collected := otlptest.Traces(t)
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
	// A caller that traces nothing lets the replica decide; the usual client of tests tells it not
	// to.
	plain := connection(t, r.url, "distributor")
	caller := gitcachev1connect.NewGitCacheServiceClient(plain.HTTP, plain.BaseURL)
	resolved, err := caller.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "app")})
	if err != nil {
		t.Fatal(err)
	}
	follower := start(t, redis.URL(), t.TempDir(), traced)
	await.Success(t, "the follower's copy", func(ctx context.Context) error {
		_, err := dialReplica(t, follower.url, "gitcache").GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: "demo", Uid: "uid-demo"})
		return err
	})
	follower.stop()
	r.stop()

	received := one(t, collected, "webhook.receive", anyOf)
	fetch := one(t, collected, "mirror.fetch", of(received))
	repository := map[string]string{"leat.repository": "demo", "leat.repository.uid": "uid-demo", "leat.epoch": epoch}
	wantAttributes(t, fetch, repository)
	if want := fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(fetch.GetTraceId()), hex.EncodeToString(fetch.GetSpanId())); traceparent != want {
		t.Errorf("got trace %s in the event, want the fetch's, %s", traceparent, want)
	}
	call := one(t, collected, "leat.gitcache.v1.GitCacheService/ResolveSnapshot", anyOf)
	resolve := one(t, collected, "snapshot.resolve", of(call))
	build := one(t, collected, "bundle.build", of(resolve))
	for _, span := range []otlptest.Span{resolve, build} {
		wantAttributes(t, span, repository)
		wantAttributes(t, span, map[string]string{"leat.commit": pushed, "leat.digest": resolved.GetSnapshot().GetDigest()})
	}
	wantAttributes(t, one(t, collected, "mirror.copy", anyOf), map[string]string{
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
