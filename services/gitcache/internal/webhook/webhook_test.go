// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/webhook/provider"
)

func TestEveryProviderRefreshesWhatItNames(t *testing.T) {
	t.Parallel()
	signed := func(provider, event, header, prefix, name string) func(*testing.T) delivery {
		return func(t *testing.T) delivery {
			body := fixture(t, name)
			return delivery{provider: provider, body: body, header: map[string]string{
				event: "", header: prefix + mac(own, body),
			}}
		}
	}
	with := func(build func(*testing.T) delivery, name, value string) func(*testing.T) delivery {
		return func(t *testing.T) delivery {
			d := build(t)
			d.header[name] = value
			return d
		}
	}
	gitlab := func(event, name string) func(*testing.T) delivery {
		return func(t *testing.T) delivery {
			return delivery{provider: "gitlab", body: fixture(t, name), header: map[string]string{"X-Gitlab-Event": event, "X-Gitlab-Token": own}}
		}
	}
	gitea := func(event, name string) func(*testing.T) delivery {
		return with(signed("gitea", "X-Gitea-Event", "X-Gitea-Signature", "", name), "X-Gitea-Event", event)
	}
	server := func(name string) func(*testing.T) delivery {
		return with(signed("bitbucket-server", "X-Event-Key", "X-Hub-Signature", "sha256=", name), "X-Event-Key", "repo:refs_changed")
	}
	registry := func(provider, authorization, name string) func(*testing.T) delivery {
		return func(t *testing.T) delivery {
			return delivery{provider: provider, body: fixture(t, name), header: map[string]string{"Authorization": authorization}}
		}
	}
	for _, tc := range []struct {
		name     string
		url      string // of the repository as the definition has it
		delivery func(*testing.T) delivery
	}{
		{"github", "https://github.com/Acme/shop", func(t *testing.T) delivery { return github(t, own, "push", "github-push") }},
		{"github over ssh", "git@github.com:acme/shop.git", func(t *testing.T) delivery { return github(t, own, "push", "github-push") }},
		{"github deleted tag", "https://github.com/Acme/shop.git", func(t *testing.T) delivery { return github(t, own, "push", "github-push-deleted-tag") }},
		{"github renamed", "https://github.com/Acme/store.git", func(t *testing.T) delivery { return github(t, own, "push", "github-push-renamed") }},
		{"github as a form", "https://github.com/Acme/shop", func(t *testing.T) delivery {
			d := github(t, own, "push", "github-push")
			d.body = []byte(url.Values{"payload": {string(d.body)}}.Encode())
			d.header["Content-Type"] = "application/x-www-form-urlencoded"
			d.header["X-Hub-Signature-256"] = "sha256=" + mac(own, d.body)
			return d
		}},
		{"gitlab", "https://gitlab.example.com/team/apps/shop.git", gitlab("Push Hook", "gitlab-push")},
		{"gitlab over ssh", "ssh://git@gitlab.example.com:2222/team/apps/shop.git", gitlab("Push Hook", "gitlab-push")},
		{"gitlab tag", "https://gitlab.example.com:443/team/apps/shop", gitlab("Tag Push Hook", "gitlab-tag-push")},
		{"gitlab system hook", "https://gitlab.example.com/team/apps/shop", gitlab("System Hook", "gitlab-system-push")},
		{"bitbucket", "git@bitbucket.org:acme/shop.git", with(signed("bitbucket", "X-Event-Key", "X-Hub-Signature", "sha256=", "bitbucket-push"), "X-Event-Key", "repo:push")},
		{"bitbucket server", "https://bitbucket.example.com/scm/prj/shop.git", server("bitbucket-server-push")},
		{"bitbucket server over ssh", "ssh://git@bitbucket.example.com:7999/PRJ/shop.git", server("bitbucket-server-push")},
		{"bitbucket server without links", "https://bitbucket.example.com/scm/PRJ/shop.git", server("bitbucket-server-push-old")},
		{"gitea", "http://git.example.com:3000/acme/shop", gitea("push", "gitea-push")},
		{"gitea over ssh", "ssh://git@git.example.com:2222/acme/shop", gitea("push", "gitea-push")},
		{"gitea deleted branch", "http://git.example.com:3000/acme/shop.git", gitea("delete", "gitea-delete")},
		{"forgejo alone", "http://git.example.com:3000/acme/shop", with(signed("gitea", "X-Forgejo-Event", "X-Forgejo-Signature", "", "gitea-push"), "X-Forgejo-Event", "push")},
		{"azure devops", "https://dev.azure.com/acme/Web%20Apps/_git/shop", func(t *testing.T) delivery { return azure(t, own) }},
		{"azure devops over ssh", "git@ssh.dev.azure.com:v3/acme/Web Apps/shop", func(t *testing.T) delivery { return azure(t, own) }},
		{"azure devops, old host", "https://acme.visualstudio.com/DefaultCollection/Web%20Apps/_git/shop", func(t *testing.T) delivery { return azure(t, own) }},
		{"distribution", "oci://registry.example.com/team/shop", registry("distribution", "Bearer "+own, "distribution-push")},
		{"distribution, deletion, own host", "oci+http://10.0.0.7:5000/team/shop", registry("distribution", basicHeader(own), "distribution-delete")},
		{"harbor", "oci://harbor.example.com:8443/team/shop", registry("harbor", own, "harbor-push")},
		{"generic", "https://git.example.com/shop", func(*testing.T) delivery {
			return generic(own, `{"url": "ssh://git@git.example.com/shop.git"}`, time.Now())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := (&hub{repositories: []mirror.Definition{
				repository("shop", tc.url, own), repository("other", "https://git.example.com/other.git", own),
			}}).start(t)
			wantStatus(t, h.send(t, tc.delivery(t)), http.StatusAccepted)
			if diff := cmp.Diff([]string{"shop"}, h.await(t, 1)); diff != "" {
				t.Errorf("refreshed (-want +got):\n%s", diff)
			}
			namesNoRef := slices.Contains([]string{"generic", "harbor", "distribution, deletion, own host", "gitlab system hook"}, tc.name)
			if got := h.take(t).record; got.Outcome != hooklog.Accepted || (len(got.Refs) == 0) != namesNoRef {
				t.Errorf("got the record %v, want an accepted one with the refs that it names", got)
			}
		})
	}
}

func azure(t *testing.T, secret string) delivery {
	t.Helper()
	return delivery{
		provider: "azure-devops", body: fixture(t, "azure-push"), header: map[string]string{"Authorization": basicHeader(secret)},
	}
}

// basicHeader is the header with a secret as the password.
func basicHeader(secret string) string {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.SetBasicAuth("anybody", secret)
	return r.Header.Get("Authorization")
}

// TestEventsThatMoveNoTags are read and do nothing.
func TestEventsThatMoveNoTags(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "oci://registry.example.com/team/shop", own)}}).start(t)
	for _, d := range []delivery{
		{provider: "distribution", body: []byte(`{"events":[{"action":"pull","target":{"repository":"team/shop","tag":"1"},"request":{"host":"registry.example.com"}}]}`)},
		{provider: "distribution", body: []byte(`{"events":[{"action":"push","target":{"repository":"team/shop"},"request":{"host":"registry.example.com"}}]}`)},
		{provider: "distribution", body: []byte(`{"events":[]}`)},
		{provider: "harbor", body: []byte(`{"type":"SCANNING_COMPLETED","event_data":{"resources":[{"resource_url":"registry.example.com/team/shop:1"}]}}`)},
	} {
		d.header = map[string]string{"Authorization": "Bearer " + own}
		wantStatus(t, h.send(t, d), http.StatusAccepted)
	}
	wantStatus(t, h.send(t, delivery{
		provider: "distribution", body: fixture(t, "distribution-push"), header: map[string]string{"Authorization": "Bearer wrong"},
	}), http.StatusUnauthorized)
	if n := h.count(); n != 0 {
		t.Errorf("got %d refreshes, want none", n)
	}
}

// TestARealRegistryNotifies pushes a tag to the distribution project's registry.
func TestARealRegistryNotifies(t *testing.T) {
	t.Parallel()
	h := &hub{}
	receiver := httptest.NewUnstartedServer(nil)
	r := registrytest.Start(t, registrytest.Config{
		Notify: "http://" + receiver.Listener.Addr().String() + "/webhooks/distribution", NotifyAuthorization: "Bearer " + own,
	})
	h.repositories = []mirror.Definition{
		repository("shop", "oci+http://"+r.Addr+"/team/shop", own), repository("other", "oci+http://"+r.Addr+"/team/other", own),
	}
	receiver.Config.Handler = h.start(t).mux
	receiver.Start()
	t.Cleanup(receiver.Close)
	r.Push(t, "team/shop", "1.0.0", registrytest.ChartType, registrytest.Layer{MediaType: registrytest.ChartLayerType, Data: []byte("layer")})
	if diff := cmp.Diff([]string{"shop"}, h.await(t, 1)); diff != "" {
		t.Errorf("refreshed (-want +got):\n%s", diff)
	}
}

// TestURLsThatMeanTheSame goes through the forms in which people write one repository.
func TestURLsThatMeanTheSame(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"https://Git.Example.com/Team/Shop.git", "https://git.example.com/team/shop", true},
		{"https://git.example.com:443/shop/", "http://git.example.com:80/shop.git", true},
		{"git@git.example.com:team/shop.git", "ssh://git@git.example.com:22/team/shop", true},
		{"git.example.com:/team/shop.git", "https://robin@git.example.com/team//shop.git/", true},
		{"ssh://git@[2001:db8::1]/shop", "https://[2001:db8::1]/shop.git", true},
		{"https://git.example.com/a%20b", "https://git.example.com/a b", true},
		{"https://dev.azure.com/acme/_git/shop", "git@ssh.dev.azure.com:v3/acme/shop/shop", true},
		{"https://git.example.com:8443/shop", "https://git.example.com/shop", false},
		{"https://git.example.com/shop", "https://git.example.com/shop2", false},
		{"https://git.example.com/shop", "https://git.example.com/team/shop", false},
		{"https://git.example.com/shop", "https://evil.example.com/shop", false},
		{"https://git.example.com/shop", "https://git.example.com.evil.example/shop", false},
	} {
		h := (&hub{repositories: []mirror.Definition{
			repository("a", tc.a, own), repository("marker", "https://marker.example/x", own),
		}}).start(t)
		wantStatus(t, h.send(t, generic(own, `{"url": "`+tc.b+`"}`, time.Now())), http.StatusAccepted)
		want := []string{"a"}
		if !tc.same { // the next fetch shows that there was none before
			want = []string{"marker"}
			h.send(t, generic(own, `{"url": "https://marker.example/x"}`, time.Now()))
		}
		if diff := cmp.Diff(want, h.await(t, 1)); diff != "" {
			t.Errorf("%s and %s (-want +got):\n%s", tc.a, tc.b, diff)
		}
	}
}

func TestOnlyProvenWebhooksCount(t *testing.T) {
	t.Parallel()
	push := func(t *testing.T) delivery { return github(t, own, "push", "github-push") }
	change := func(build func(*testing.T) delivery, header, value string) func(*testing.T) delivery {
		return func(t *testing.T) delivery {
			d := build(t)
			d.header[header] = value
			return d
		}
	}
	aged := func(age time.Duration) func(*testing.T) delivery {
		return func(*testing.T) delivery {
			return generic(own, `{"url": "https://github.com/Acme/shop"}`, time.Now().Add(-age))
		}
	}
	for name, build := range map[string]func(*testing.T) delivery{
		"no signature":      change(push, "X-Hub-Signature-256", ""),
		"SHA-1":             change(push, "X-Hub-Signature-256", "sha1=0123456789012345678901234567890123456789"),
		"short signature":   change(push, "X-Hub-Signature-256", "sha256=00"),
		"another secret":    func(t *testing.T) delivery { return github(t, "a secret nobody has here", "push", "github-push") },
		"empty secret":      func(t *testing.T) delivery { return github(t, "", "push", "github-push") },
		"ping, not proven":  func(t *testing.T) delivery { return github(t, "a secret nobody has here", "ping", "github-ping") },
		"gitlab, no token":  func(t *testing.T) delivery { return delivery{provider: "gitlab", body: fixture(t, "gitlab-push")} },
		"azure, another":    func(t *testing.T) delivery { return azure(t, "a secret nobody has here") },
		"azure, empty":      func(t *testing.T) delivery { return azure(t, "") },
		"generic, old":      aged(6 * time.Minute),
		"generic, future":   aged(-6 * time.Minute),
		"generic, no time":  change(aged(0), "X-Leat-Timestamp", ""),
		"generic, moved on": change(aged(time.Minute), "X-Leat-Timestamp", "1"),
		"tampered body": func(t *testing.T) delivery {
			d := push(t)
			d.body = bytes.Replace(d.body, []byte("main"), []byte("evil"), 1)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
			w := h.send(t, build(t))
			wantStatus(t, w, http.StatusUnauthorized)
			if strings.Contains(w.Body.String(), "shop") || h.count() != 0 || h.verified.Load() != 0 {
				t.Errorf("got %s, %d refreshes, %d verified; want neither a name nor a refresh nor a verified sender", w.Body, h.count(), h.verified.Load())
			}
		})
	}
}

// TestASecretReachesItsRepositoriesOnly: who may tell of one repository may not tell of another.
func TestASecretReachesItsRepositoriesOnly(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{
		repository("own", "https://github.com/Acme/shop", own), repository("shared", "https://github.com/acme/shop.git", ""),
	}}).start(t)
	wantStatus(t, h.send(t, github(t, own, "push", "github-push")), http.StatusAccepted)
	if diff := cmp.Diff([]string{"own"}, h.await(t, 1)); diff != "" {
		t.Errorf("with a repository's own secret (-want +got):\n%s", diff)
	}
	wantStatus(t, h.send(t, github(t, shared, "push", "github-push")), http.StatusAccepted)
	if diff := cmp.Diff([]string{"shared"}, h.await(t, 1)); diff != "" {
		t.Errorf("with the hub's secret (-want +got):\n%s", diff)
	}
}

// TestAnswersAreAlike: the sender does not learn whether there is such a repository.
func TestAnswersAreAlike(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
	matched := h.send(t, github(t, own, "push", "github-push"))
	h.await(t, 1)
	for name, w := range map[string]*httptest.ResponseRecorder{
		"unmatched": h.send(t, github(t, own, "push", "github-push-renamed")),
		"replayed":  h.send(t, github(t, own, "push", "github-push")),
		"ignored":   h.send(t, github(t, own, "issues", "github-push-deleted-tag")),
	} {
		wantStatus(t, w, http.StatusAccepted)
		if diff := cmp.Diff(matched.Header(), w.Header()); diff != "" || w.Body.String() != matched.Body.String() {
			t.Errorf("%s: got %s, want %s; headers (-matched +got):\n%s", name, w.Body, matched.Body, diff)
		}
	}
	if h.count() != 1 {
		t.Errorf("got %d refreshes, want 1", h.count())
	}
}

func TestReplaysFetchNothing(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{
		repository("shop", "https://github.com/Acme/shop", own), repository("marker", "https://marker.example/x", own),
	}}).start(t)
	first := github(t, own, "push", "github-push")
	h.send(t, first)
	h.await(t, 1)
	first.header["X-GitHub-Delivery"] = "2" // is not signed, and so does not count
	wantStatus(t, h.send(t, first), http.StatusAccepted)
	h.send(t, generic(own, `{"url": "https://marker.example/x"}`, time.Now()))
	if diff := cmp.Diff([]string{"marker"}, h.await(t, 1)); diff != "" {
		t.Errorf("after a replay (-want +got):\n%s", diff)
	}
}

// TestAFailedRefreshMayBeSentAgain: a delivery that led to nothing is none that was seen.
func TestAFailedRefreshMayBeSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		h := (&hub{
			repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)},
			fail: func(string) error {
				if calls.Add(1) == 1 {
					return mirror.ErrUnknownRepository
				}
				return nil
			},
		}).start(t)
		h.send(t, github(t, own, "push", "github-push"))
		synctest.Wait()
		h.send(t, github(t, own, "push", "github-push"))
		h.await(t, 1)
	})
}

// TestAnAbsentOwnerIsWaitedFor: a replica died a moment ago, and another takes over.
func TestAnAbsentOwnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		h := (&hub{
			repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)},
			fail: func(string) error {
				if calls.Add(1) < 5 {
					return connect.NewError(connect.CodeUnavailable, errors.New("nobody owns it"))
				}
				return nil
			},
		}).start(t)
		h.send(t, github(t, own, "push", "github-push"))
		h.await(t, 1)
	})
}

func TestPings(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
	for _, d := range []delivery{
		github(t, own, "ping", "github-ping"),
		generic(own, `{"event": "ping"}`, time.Now()),
		{provider: "bitbucket-server", body: []byte(`{"test": true}`), header: map[string]string{"X-Event-Key": "diagnostics:ping"}},
	} {
		wantStatus(t, h.send(t, d), http.StatusOK)
	}
	if h.count() != 0 || h.verified.Load() != 2 {
		t.Errorf("got %d refreshes and %d verified senders, want none and the two that signed", h.count(), h.verified.Load())
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
	large := make([]byte, 512<<10+1)
	wantStatus(t, h.send(t, delivery{provider: "github", body: large, header: map[string]string{
		"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + mac(own, large),
	}}), http.StatusRequestEntityTooLarge)
	wantStatus(t, h.send(t, generic(own, "no json", time.Now())), http.StatusBadRequest)
	wantStatus(t, h.send(t, generic(own, `{"url": "/etc/passwd"}`, time.Now())), http.StatusBadRequest)
	wantStatus(t, h.send(t, delivery{provider: "sourceforge"}), http.StatusNotFound)
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhooks/github", http.NoBody))
	wantStatus(t, w, http.StatusMethodNotAllowed)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
		send := func(from, body string) *httptest.ResponseRecorder {
			d := generic(own, body, time.Now())
			d.from = from
			return h.send(t, d)
		}
		flood := func(from, body string) (accepted int, last *httptest.ResponseRecorder) {
			for i := range 1000 {
				padding := strings.Repeat(" ", i) // other bytes, so that it is not a replay
				if last = send(from, body+padding); last.Code != http.StatusAccepted {
					return accepted, last
				}
				accepted++
			}
			return accepted, last
		}
		for _, target := range []string{"https://github.com/Acme/shop", "https://github.com/Acme/unknown"} {
			n, last := flood("192.0.2.1:1", `{"url": "`+target+`"}`)
			if n != 30 || last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" {
				t.Errorf("%s: got %d accepted, then %d with Retry-After %q; want 30, then 429 with one", target, n, last.Code, last.Header().Get("Retry-After"))
			}
		}
		n, last := flood("[2001:db8::1]:1", `{"event": "tag"}`)
		if n != 300 || last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" {
			t.Errorf("one source: got %d accepted, then %d; want 300, then 429", n, last.Code)
		}
		wantStatus(t, send("[2001:db8::2]:1", `{"event": "tag"}`), http.StatusTooManyRequests) // the same network
		wantStatus(t, send("[2001:db8:0:1::1]:1", `{"event": "tag"}`), http.StatusAccepted)
		time.Sleep(time.Minute)
		wantStatus(t, send("[2001:db8::1]:1", `{"event": "tag"}`), http.StatusAccepted)
	})
}

func TestARefreshBelongsToTheTraceOfItsWebhook(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
	d := github(t, own, "push", "github-push")
	d.span = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	h.send(t, d)
	h.await(t, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if diff := cmp.Diff([]trace.TraceID{{1}}, h.traces); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
}

// TestWithoutWhatReplicasShare every replica goes by its own memory.
func TestWithoutWhatReplicasShare(t *testing.T) {
	t.Parallel()
	h := (&hub{
		repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}, shared: errors.New("redis is gone"),
	}).start(t)
	h.send(t, github(t, own, "push", "github-push"))
	h.await(t, 1)
}

// TestOneDeliveryForSeveralRepositories: two definitions may mirror one upstream.
func TestOneDeliveryForSeveralRepositories(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{
		repository("a", "https://github.com/Acme/shop", own), repository("b", "git@github.com:Acme/shop.git", own),
		repository("c", "https://github.com/Acme/shop.git", "a secret of another kind"),
	}}).start(t)
	h.send(t, github(t, own, "push", "github-push"))
	if diff := cmp.Diff([]string{"a", "b"}, h.await(t, 2)); diff != "" {
		t.Errorf("refreshed (-want +got):\n%s", diff)
	}
}

func TestMetricTellsWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	h := (&hub{
		repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)},
		meter:        sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(""),
	}).start(t)
	h.send(t, github(t, own, "push", "github-push"))
	h.send(t, github(t, own, "push", "github-push"))
	h.send(t, github(t, own, "push", "github-push-renamed"))
	h.send(t, github(t, own, "issues", "github-push"))
	h.send(t, github(t, own, "ping", "github-ping"))
	h.send(t, github(t, "a secret nobody has here", "push", "github-push"))
	h.send(t, generic(own, "no json", time.Now()))
	h.send(t, delivery{provider: "anything"})
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		sum, ok := m.Data.(metricdata.Sum[int64])
		if !ok || m.Name != "leat.webhook.received" {
			t.Fatalf("got metric %s, want the sum leat.webhook.received", m.Name)
		}
		for _, point := range sum.DataPoints {
			sender, _ := point.Attributes.Value("leat.webhook.provider")
			outcome, _ := point.Attributes.Value("leat.webhook.outcome")
			got[sender.AsString()+" "+outcome.AsString()] = point.Value
		}
	}
	want := map[string]int64{
		"github accepted": 1, "github replayed": 1, "github unmatched": 1, "github ignored": 1, "github ping": 1,
		"github refused": 1, "generic malformed": 1, "unknown unknown_provider": 1,
	}
	for _, name := range provider.Names() { // they begin at zero, so that a rate sees the first
		for _, outcome := range []string{"accepted", "refused"} {
			want[name+" "+outcome] += 0
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}
