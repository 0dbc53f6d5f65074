// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// set gives a person any decision.
func (b *accessBook) set(user, cluster string, res *distributorv1.CheckAccessResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil {
		b.answers = map[string]*distributorv1.CheckAccessResponse{}
	}
	if res.GetMaxAge() == nil {
		res.MaxAge = durationpb.New(30 * time.Second)
	}
	res.ClusterUid = "uid-" + cluster
	b.answers["user:"+user+" "+cluster] = res
}

// seen is an API server that answers with the headers that it got, as JSON.
func seen(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(r.Header) }

// rules are the rules that narrow a role.
func viewerOf(name string) *distributorv1.CheckAccessResponse {
	return &distributorv1.CheckAccessResponse{
		Allowed: true, User: name, Uid: "uid-" + name, Narrowed: true,
		Grants: []*distributorv1.NarrowedGrant{{
			Binding: "look", Groups: []string{"leat:viewers"}, Rules: []*typev1.AccessRule{{Verbs: []string{"get", "list", "watch"}}},
		}},
	}
}

func operatorOf(name string) *distributorv1.CheckAccessResponse {
	d := viewerOf(name)
	d.Grants = append(d.Grants, &distributorv1.NarrowedGrant{
		Binding: "shop", Groups: []string{"leat:operators"}, Rules: []*typev1.AccessRule{{Namespaces: []string{"shop"}}},
	})
	return d
}

// TestWhoMayDoWhatWhere makes requests of every kind as every kind of caller, to a cluster that
// there is and one that there is not.
func TestWhoMayDoWhatWhere(t *testing.T) {
	h := startHub(t, nil)
	h.agent("demo", seen)
	h.agent("other", seen)
	h.access.set("viewer", "demo", viewerOf("viewer"))
	h.access.set("operator", "demo", operatorOf("operator"))
	h.access.grant("admin", "demo", "leat:admins")
	h.access.grant("elsewhere", "other", "leat:admins")

	_, strange, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := identity.NewIssuer(strange).Issue(identity.Identity{Kind: identity.KindUser, Name: "admin"}, identity.ServiceTunnel, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	service := serviceToken(t, identity.ServiceDistributor, identity.ServiceTunnel)
	good := h.user("admin")
	requests := []struct{ method, path string }{
		{"GET", "/api/v1/namespaces/shop/pods"},
		{"GET", "/api/v1/pods"},
		{"GET", "/api/v1/pods?watch=0"},
		{"GET", "/version"},
		{"POST", "/api/v1/namespaces/shop/pods"},
		{"DELETE", "/api/v1/namespaces/shop/pods/x"},
		{"DELETE", "/api/v1/namespaces/other/pods/x"},
		{"DELETE", "/api/v1/namespaces/shop/pods"},
		{"PATCH", "/apis/apps/v1/namespaces/other/deployments/x"},
		{"GET", "/metrics"},
	}
	const all = "2222222222"
	for name, caller := range map[string]struct {
		token string
		// demo has a digit of each request's status, in their order; other is for the other
		// cluster, none for one that does not exist.
		demo, other, none string
	}{
		"anonymous":           {"", "1111111111", "1111111111", "1111111111"},
		"garbage":             {"a.b.c", "1111111111", "1111111111", "1111111111"},
		"of another issuer":   {reissued(t, h, good, "iss", "elsewhere"), "1111111111", "1111111111", "1111111111"},
		"of another audience": {reissued(t, h, good, "aud", "elsewhere"), "1111111111", "1111111111", "1111111111"},
		"expired":             {reissued(t, h, good, "exp", time.Now().Add(-time.Hour).Unix()), "1111111111", "1111111111", "1111111111"},
		"of another key":      {stranger, "1111111111", "1111111111", "1111111111"},
		"cluster":             {h.cluster("demo"), "3333333333", "3333333333", "3333333333"},
		"service":             {service, "1111111111", "1111111111", "1111111111"},
		"viewer":              {h.user("viewer"), "2222333333", "3333333333", "3333333333"},
		"operator":            {h.user("operator"), "2222223233", "3333333333", "3333333333"},
		"admin":               {good, all, "3333333333", "3333333333"},
		"admin of another":    {h.user("elsewhere"), "3333333333", all, "3333333333"},
		"deleted":             {h.user("gone", "leat:admins"), "3333333333", "3333333333", "3333333333"},
	} {
		for cluster, want := range map[string]string{"demo": caller.demo, "other": caller.other, "none": caller.none} {
			got := ""
			for _, request := range requests {
				req := h.request(t.Context(), request.method, "nobody", cluster, request.path, nil)
				req.Header.Del("Authorization")
				if caller.token != "" {
					req.Header.Set("Authorization", "Bearer "+caller.token)
				}
				res, _ := h.do(client(t, false), req)
				got += map[int]string{200: "2", 401: "1", 403: "3"}[res.StatusCode]
			}
			if got != want {
				t.Errorf("%s at %s: got %s, want %s (1: 401, 2: 200, 3: 403), for %v", name, cluster, got, want, requests)
			}
		}
	}
}

// reissued is a token with another claim, signed with the hub's key.
func reissued(t *testing.T, h *hub, token, claim string, value any) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	claims[claim] = value
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(h.key, []byte(signed)))
}

// TestGroupsFollowTheRequest has an operator of one namespace be a viewer elsewhere, and tells them
// why not.
func TestGroupsFollowTheRequest(t *testing.T) {
	h := startHub(t, nil)
	h.agent("demo", seen)
	h.access.set("ada", "demo", operatorOf("ada"))
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/pods":  "leat:operators leat:viewers look shop",
		"/api/v1/namespaces/other/pods": "leat:viewers look",
		"/apis":                         "", // for everybody, without a group
	} {
		_, body := h.get(client(t, false), "ada", "demo", path)
		var header http.Header
		if err := json.Unmarshal([]byte(body), &header); err != nil {
			t.Fatalf("%s: %v in %s", path, err, body)
		}
		got := strings.Join(append(header["Impersonate-Group"], header["Impersonate-Extra-Leat.dev%2fbindings"]...), " ")
		if got != want || header.Get("Impersonate-User") != "ada" || header.Get("Impersonate-Uid") != "uid-ada" {
			t.Errorf("%s: got %q in %v, want %q", path, got, header, want)
		}
	}
	req := h.request(t.Context(), http.MethodDelete, "ada", "demo", "/apis/apps/v1/namespaces/other/deployments/x", nil)
	res, body := h.do(client(t, false), req)
	if res.StatusCode != http.StatusForbidden || !strings.Contains(body, "delete deployments of apps in namespace other") {
		t.Errorf("got %d %s, want the missing verb and resource named", res.StatusCode, body)
	}
	checkStatus(t, "refused", body, http.StatusForbidden, "hub", "ask an administrator")
}

// TestKubernetesOwnIdentitiesAreNeverSent has a distributor that went astray.
func TestKubernetesOwnIdentitiesAreNeverSent(t *testing.T) {
	h := startHub(t, nil)
	h.agent("demo", seen)
	for user, res := range map[string]*distributorv1.CheckAccessResponse{
		"masters":  {Allowed: true, User: "masters", Groups: []string{"leat:viewers", "system:masters"}},
		"Masters":  {Allowed: true, User: "Masters", Groups: []string{"System:Masters"}},
		"admin":    {Allowed: true, User: "system:admin"},
		"narrowed": {Allowed: true, User: "narrowed", Grants: []*distributorv1.NarrowedGrant{{Groups: []string{"system:masters"}, Rules: []*typev1.AccessRule{{}}}}},
	} {
		h.access.set(user, "demo", res)
		if status, body := h.get(client(t, false), user, "demo", "/api/v1/pods"); status != http.StatusInternalServerError {
			t.Errorf("%s: got %d %s, want it refused", user, status, body)
		}
	}
}

// TestWithdrawnBindingsEndRunningRequests withdraws each part of a decision under a watch, and adds
// to others.
func TestWithdrawnBindingsEndRunningRequests(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.AccessMaxAge, cfg.RecheckInterval = time.Millisecond, 5*time.Millisecond })
	more := make(chan struct{}) // closed: watches that were ended may still be on their way out at the agent, and would take a message
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "begin\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-more:
		}
		_, _ = fmt.Fprint(w, "more\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	decision := func(change func(*distributorv1.CheckAccessResponse)) *distributorv1.CheckAccessResponse {
		d := viewerOf("ada")
		d.Groups, d.Narrowed = []string{"leat:group:a"}, false
		d.Extra = []*distributorv1.ExtraAttribute{{Key: "leat.dev/groups", Values: []string{"dev", "ops"}}}
		change(d)
		return d
	}
	unchanged := func(*distributorv1.CheckAccessResponse) {}
	watch := func() (*http.Response, func() bool) {
		h.access.set("ada", "demo", decision(unchanged))
		await.True(t, "the decision", func() bool {
			status, _ := h.getBegin("ada", "demo", "/api/v1/nodes?watch=1")
			return status == http.StatusOK
		})
		res, err := client(t, true).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?watch=1", nil))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 6))
		return res, func() bool { n, err := res.Body.Read(make([]byte, 1)); return n == 0 && err != nil }
	}
	for name, change := range map[string]func(*distributorv1.CheckAccessResponse){
		"the group":   func(d *distributorv1.CheckAccessResponse) { d.Groups = nil },
		"the extra":   func(d *distributorv1.CheckAccessResponse) { d.Extra[0].Values = []string{"dev"} },
		"the uid":     func(d *distributorv1.CheckAccessResponse) { d.Uid = "another" },
		"the rule":    func(d *distributorv1.CheckAccessResponse) { d.Grants[0].Rules[0].Verbs = []string{"get"} },
		"the binding": func(d *distributorv1.CheckAccessResponse) { d.Grants = nil },
		"all of it":   func(d *distributorv1.CheckAccessResponse) { d.Allowed = false },
		"what is open": func(d *distributorv1.CheckAccessResponse) {
			d.Narrowed, d.Grants[0].Rules[0].Resources = true, []string{"nodes"}
		},
	} {
		res, ended := watch()
		h.access.set("ada", "demo", decision(change))
		if !ended() {
			t.Errorf("%s was withdrawn and the watch went on", name)
		}
		_ = res.Body.Close()
	}
	res, _ := watch()
	h.access.set("ada", "demo", decision(func(d *distributorv1.CheckAccessResponse) {
		d.Groups, d.Extra[0].Values = []string{"leat:group:a", "leat:admins"}, []string{"dev", "ops", "more"}
	}))
	asked := h.access.count()
	await.True(t, "two more rechecks", func() bool { return h.access.count() > asked+2 })
	close(more)
	line := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != "more\n" {
		t.Errorf("got %q, %v, want the watch to go on: its caller may do more now", line, err)
	}
	_ = res.Body.Close()
}

func (b *accessBook) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// getBegin returns the status of an endless answer.
func (h *hub) getBegin(user, cluster, path string) (int, error) {
	h.tb.Helper()
	res, err := client(h.tb, true).Do(h.request(h.tb.Context(), http.MethodGet, user, cluster, path, nil))
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// TestF45RoutingTellsClustersApartWhoseNamesBeginAlike has clusters with one prefix in names and
// uids.
func TestF45RoutingTellsClustersApartWhoseNamesBeginAlike(t *testing.T) {
	h := startHub(t, nil)
	long := strings.Repeat("berlin-production-", 3)
	clusters := map[string]string{long + "a": "01234567-aaaa.1", long + "b": "01234567-bbbb.1", long + "a-b": "01234567-aaaa.2", long[:len(long)-1]: "01234567"}
	for name, uid := range clusters {
		token := h.token(identity.Identity{Kind: identity.KindCluster, Name: name, UID: uid})
		api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, name) })
		h.agentWith(agenttest.Options{ID: "c-" + name, Token: token, Handler: api}, name)
	}
	for name, uid := range clusters {
		user := "of-" + uid
		h.access.set(user, name, &distributorv1.CheckAccessResponse{Allowed: true, User: user})
		h.access.reuid(user, name, uid)
		for other := range clusters {
			status, body := h.get(client(t, false), user, other, "/api/v1/pods")
			if want := other == name; want && (status != http.StatusOK || body != name) || !want && status != http.StatusForbidden {
				t.Errorf("%s at %s: got %d %s", user, other, status, body)
			}
		}
	}
	// A decision about one cluster does not count for an agent with another's uid, however alike
	// they begin.
	h.access.set("eve", long+"a", &distributorv1.CheckAccessResponse{Allowed: true, User: "eve"})
	h.access.reuid("eve", long+"a", "01234567-aaaa.2")
	if status, body := h.get(client(t, false), "eve", long+"a", "/api/v1/pods"); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s, want no agent of that uid", status, body)
	}
}

func (b *accessBook) reuid(user, cluster, uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers["user:"+user+" "+cluster].ClusterUid = uid
}

// TestF20AgentsComeBackWithoutAskingAnybody drops many agents at once: their tokens are judged
// against keys that are known.
func TestF20AgentsComeBackWithoutAskingAnybody(t *testing.T) {
	h := startHub(t, nil)
	const agents = 200
	tokens := make([]string, agents)
	for i := range tokens {
		tokens[i] = h.cluster(fmt.Sprint("c", i))
	}
	connect := func(round int) {
		var coming sync.WaitGroup
		all := make([]*agenttest.Agent, agents)
		for i := range all {
			coming.Go(func() {
				opts := agenttest.Options{Addr: h.addr, Token: tokens[i], ID: fmt.Sprintf("c%d-%d", i, round), Handler: http.HandlerFunc(echo)}
				var err error
				if all[i], err = agenttest.Dial(t.Context(), opts); err != nil {
					t.Errorf("agent %d: %v", i, err)
				}
			})
		}
		coming.Wait()
		await.True(t, "all agents", func() bool { return len(h.sessions()) >= agents })
		for _, agent := range all {
			if agent != nil {
				agent.Close()
			}
		}
		await.True(t, "their end", func() bool { return len(h.sessions()) == 0 })
	}
	connect(0)
	before := h.keysAsked.Load()
	connect(1)
	if got := h.keysAsked.Load() - before; got != 0 || before > 2 {
		t.Errorf("the distributor was asked %d and %d times for keys, want at most 2, and none when agents come again", before, got)
	}
	if got := h.access.count(); got != 0 {
		t.Errorf("the distributor was asked %d times for decisions, want none for agents", got)
	}
}
