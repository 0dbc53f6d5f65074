// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"io"
	"net/http"
	"net/url"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
)

// poll acts as a program that knows HTTP, and nothing of Leat.
type poll struct {
	procedure string
	encoding  string
	message   string
	header    http.Header
}

// answer is the answer to it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (h *hub) poll(t *testing.T, token string, p poll) answer {
	t.Helper()
	query := url.Values{"connect": {"v1"}, "encoding": {p.encoding}, "message": {p.message}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+p.procedure+"?"+query.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range p.header {
		req.Header[key] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultTransport.RoundTrip(req) // HTTP/1.1
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: body}
}

func (a answer) etag() string { return a.header.Get("Etag") }

// wantCacheable fails unless the answer has that status, an entity tag, and is for its reader
// alone.
func (a answer) wantCacheable(t *testing.T, status int) {
	t.Helper()
	if a.status != status || a.etag() == "" || a.header.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("got %d with %v, want %d with Etag and Cache-Control: private, no-cache", a.status, a.header, status)
	}
	if status == http.StatusNotModified && len(a.body) != 0 {
		t.Errorf("got a body of %d bytes with 304, want none", len(a.body))
	}
}

// startPolled has a hub with the service app, resolved, and the token of its cluster's agent.
func startPolled(t *testing.T) (*hub, string) {
	t.Helper()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.waitService(t, "app", resolvedAt("c1"))
	return h, h.enrol(t, "one").token
}

func TestDumbPoller(t *testing.T) {
	t.Parallel()
	h, token := startPolled(t)
	p := poll{procedure: distributorv1connect.DistributorServiceGetPlanProcedure, encoding: "json", message: "{}"}
	first := h.poll(t, token, p)
	first.wantCacheable(t, http.StatusOK)
	res := &distributorv1.GetPlanResponse{}
	if err := protojson.Unmarshal(first.body, res); err != nil || len(res.GetPlan().GetServices()) != 1 {
		t.Fatalf("got %s, %v, want a plan in JSON", first.body, err)
	}
	for _, header := range []http.Header{
		{"If-None-Match": {first.etag()}},
		{"If-None-Match": {`"another", ` + first.etag()}},
		{"If-None-Match": {`"another"`, first.etag()}},
		{"If-None-Match": {first.etag()[len("W/"):]}},
		{"If-None-Match": {"*"}},
		{"If-None-Match": {first.etag()}, "Accept-Encoding": {"gzip"}},
	} {
		p.header = header
		again := h.poll(t, token, p)
		again.wantCacheable(t, http.StatusNotModified)
		if again.etag() != first.etag() {
			t.Errorf("got tag %s with 304, want %s", again.etag(), first.etag())
		}
	}
	p.header = http.Header{"If-None-Match": {`"another"`}}
	h.poll(t, token, p).wantCacheable(t, http.StatusOK)

	h.apply(t, pausedDocument())
	p.header = http.Header{"If-None-Match": {first.etag()}}
	second := h.poll(t, token, p)
	second.wantCacheable(t, http.StatusOK)
	if second.etag() == first.etag() {
		t.Errorf("got the same tag %s for another plan", second.etag())
	}
	if refused := h.poll(t, "no-token", p); refused.status != http.StatusUnauthorized || refused.etag() != "" {
		t.Errorf("got %d with tag %q for a bad token, want 401 without one", refused.status, refused.etag())
	}
}

// TestTagsTellFormsApart has one tag for each thing that can be said and each encoding of it.
func TestTagsTellFormsApart(t *testing.T) {
	t.Parallel()
	h, token := startPolled(t)
	h.apply(t, serviceDocument("other", "one", "demo", "app"))
	h.waitService(t, "other", resolvedAt("c1"))
	client := h.agents(t, token)
	before, err := client.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	h.apply(t, pausedDocument())
	after, err := client.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	known := func(p *distributorv1.GetPlanResponse) string {
		return `{"knownVersion":"` + p.GetPlan().GetVersion() + `"`
	}
	seen := map[string]poll{}
	for _, p := range []poll{
		{procedure: distributorv1connect.DistributorServiceGetPlanProcedure, encoding: "json", message: "{}"},
		{procedure: distributorv1connect.DistributorServiceGetPlanProcedure, encoding: "proto"},
		{procedure: distributorv1connect.DistributorServiceGetPlanProcedure, encoding: "json", message: known(after) + "}"},
		{procedure: distributorv1connect.DistributorServiceGetPlanProcedure, encoding: "json", message: known(before) + `,"acceptDelta":true}`},
		{procedure: distributorv1connect.DistributorServiceGetDigestProcedure, encoding: "json", message: `{"service":"app"}`},
		{procedure: distributorv1connect.DistributorServiceGetDigestProcedure, encoding: "json", message: `{"service":"other"}`},
	} {
		got := h.poll(t, token, p)
		got.wantCacheable(t, http.StatusOK)
		if twin, twice := seen[got.etag()]; twice {
			t.Errorf("got the tag %s for %v and for %v", got.etag(), p, twin)
		}
		seen[got.etag()] = p
		p.header = http.Header{"If-None-Match": {got.etag()}}
		h.poll(t, token, p).wantCacheable(t, http.StatusNotModified)
	}
}

// TestDumbPollerOfOneService is not bothered by the changes of others.
func TestDumbPollerOfOneService(t *testing.T) {
	t.Parallel()
	h, token := startPolled(t)
	p := poll{procedure: distributorv1connect.DistributorServiceGetDigestProcedure, encoding: "json", message: `{"service":"app"}`}
	first := h.poll(t, token, p)
	first.wantCacheable(t, http.StatusOK)
	p.header = http.Header{"If-None-Match": {first.etag()}}
	h.apply(t, serviceDocument("other", "one", "demo", "app"))
	h.poll(t, token, p).wantCacheable(t, http.StatusNotModified)
	h.apply(t, pausedDocument())
	h.poll(t, token, p).wantCacheable(t, http.StatusOK)
}

// TestConnectClientRevalidates uses Connect's own client with GET.
func TestConnectClientRevalidates(t *testing.T) {
	t.Parallel()
	h, token := startPolled(t)
	client := h.over(t, token, false, connect.WithHTTPGet())
	ctx, info := connect.NewClientContext(t.Context())
	first, err := client.GetPlan(ctx, &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tag := info.ResponseHeader().Get("Etag")
	ctx, info = connect.NewClientContext(t.Context())
	info.RequestHeader().Set("If-None-Match", tag)
	if _, err := client.GetPlan(ctx, &distributorv1.GetPlanRequest{}); !connect.IsNotModifiedError(err) {
		t.Errorf("got %v, want not modified", err)
	}
	// By POST the header means nothing.
	ctx, info = connect.NewClientContext(t.Context())
	info.RequestHeader().Set("If-None-Match", tag)
	second, err := h.agents(t, token).GetPlan(ctx, &distributorv1.GetPlanRequest{})
	if err != nil || !proto.Equal(first, second) || info.ResponseHeader().Get("Etag") != "" {
		t.Errorf("got %v, %v with %v, want the plan without a tag", second, err, info.ResponseHeader())
	}
}
