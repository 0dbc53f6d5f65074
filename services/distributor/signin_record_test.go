// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// from has the browser call from another address of the loopback network.
func (b *browser) from(t *testing.T, address string) *browser {
	t.Helper()
	through, ok := b.Transport.(navigation)
	if !ok {
		t.Fatalf("got %T", b.Transport)
	}
	shared, ok := through.next.(*http.Transport)
	if !ok {
		t.Fatalf("got %T", through.next)
	}
	own := shared.Clone()
	own.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext
	t.Cleanup(own.CloseIdleConnections)
	b.Transport = navigation{own}
	return b
}

// TestRecordsOfSignIns signs people in, refuses others for each reason, and ends sessions, each from
// an address of its own behind a trusted proxy. Each record has that address.
func TestRecordsOfSignIns(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *distributor.Config) { c.Serve.TrustedProxies = []string{"127.0.0.1"} })
	p := g.company(t, "corp", "ada", "bob")
	names := startOpenID(t, g.front.URL, "the secret of names", "eve")
	g.provide(t, "names", names, func(s *fleetv1.IdentityProviderSpec) { s.UsernameClaim = "preferred_username" })
	g.join(t, "eve")

	cli := g.cliLogin("corp")
	ada := g.redeem(t, cli.codeAt(t, g.browser(t).from(t, "127.0.0.11").signIn(t, cli.url, "ada")), cli.verifier)
	if _, err := ada.sessions.SignOut(t.Context(), &fleetv1.SignOutRequest{SessionToken: ada.id + "." + ada.token}); err != nil {
		t.Fatal(err)
	}
	bob := g.login(t, "corp", "bob")
	stolen := bob.token
	bob.exchange(t)
	_, err := bob.present(t, stolen, newToken())
	wantInvalid(t, err, "a stolen token")

	// Refused, each for another reason.
	g.browser(t).from(t, "127.0.0.12").signIn(t, g.cliLogin("names").url, "eve")
	g.browser(t).from(t, "127.0.0.13").do(t, http.MethodGet, g.front.URL+"/login/callback?code=x&state=y", nil)
	denied := g.browser(t).from(t, "127.0.0.14")
	denied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	asked := denied.do(t, http.MethodGet, g.cliLogin("corp").url, nil)
	denied.do(t, http.MethodGet, g.front.URL+"/login/callback?error=access_denied&state="+asked.location.Query().Get("state"), nil)
	asked = denied.do(t, http.MethodGet, g.cliLogin("corp").url, nil)
	denied.do(t, http.MethodGet, g.front.URL+"/login/callback?code=made-up&state="+asked.location.Query().Get("state"), nil)
	g.provide(t, "corp", p, func(s *fleetv1.IdentityProviderSpec) {
		s.Require = []*fleetv1.ClaimRequirement{{Claim: "hd", Values: []string{"example.com"}}}
	})
	g.browser(t).from(t, "127.0.0.15").signIn(t, g.cliLogin("corp").url, "ada")
	p.set(func() { p.down = true })
	g.provide(t, "corp", p, func(s *fleetv1.IdentityProviderSpec) { s.Title = "Corp" })
	g.browser(t).from(t, "127.0.0.16").do(t, http.MethodGet, g.cliLogin("corp").url, nil)

	var got []string
	for _, r := range auditOf(t, g.admin, &fleetv1.ListAuditRecordsRequest{Kind: "Session"}) {
		host, _, _ := net.SplitHostPort(r.GetSourceAddress())
		rpc := r.GetProcedure()[strings.LastIndexByte(r.GetProcedure(), '/')+1:]
		name := strings.NewReplacer(ada.id, "ADA", bob.id, "BOB").Replace(r.GetName())
		got = append(got, strings.Join([]string{host, r.GetSubject(), r.GetVerb(), name, r.GetOutcome(), rpc}, " "))
		if r.GetRequestId() == "" || r.GetTraceId() == "" || r.GetUserAgent() == "" {
			t.Errorf("got %v, want the call and the program", r)
		}
		if session, ok := strings.CutPrefix(r.GetCredential(), "session."); r.GetOutcome() == "OK" && strings.HasPrefix(r.GetSubject(), "user:corp.") && (!ok || session != r.GetName()) {
			t.Errorf("got %v, want the session as the token", r)
		}
	}
	slices.Reverse(got)
	want := []string{
		"127.0.0.11 user:corp.ada create ADA OK callback", "127.0.0.1 service:distributor update ADA OK CreateSession",
		"127.0.0.1 user:corp.ada delete ADA OK SignOut",
		"127.0.0.1 user:corp.bob create BOB OK callback", "127.0.0.1 service:distributor update BOB OK CreateSession",
		"127.0.0.1 service:distributor delete BOB OK CreateAccessToken",
		"127.0.0.12 user:names.eve create names ALREADY_EXISTS callback",
		"127.0.0.13 service:distributor create  TOKEN_INVALID callback",
		"127.0.0.14 service:distributor create corp ACCESS_DENIED callback",
		"127.0.0.14 service:distributor create corp TOKEN_INVALID callback",
		"127.0.0.15 user:corp.ada create corp ACCESS_DENIED callback",
		"127.0.0.16 service:distributor create corp DEPENDENCY_UNAVAILABLE login",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMetricsOfSignIns signs people in, renews claims and exchanges tokens, and reads the metrics.
func TestMetricsOfSignIns(t *testing.T) {
	t.Parallel()
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scrape := "http://" + internal.Addr().String() + "/metrics"
	g := newGate(t, func(c *distributor.Config) { c.Serve.InternalListener = internal })
	p := startOpenID(t, g.front.URL, "the secret of corp", "ada", "bob")
	g.provide(t, "corp", p)
	if end := g.browser(t).signIn(t, g.front.URL+"/login", "ada"); end.status != http.StatusOK {
		t.Fatalf("got %d:\n%s", end.status, end.body)
	}
	ada := g.login(t, "corp", "ada")
	ada.exchange(t)
	old := ada.token
	ada.exchange(t)
	_, err = ada.present(t, old, newToken())
	wantInvalid(t, err, "a stolen token")
	g.browser(t).do(t, http.MethodGet, g.front.URL+"/login/callback?code=x&state=y", nil)
	bob := g.login(t, "corp", "bob")
	g.due(t)
	bob.exchange(t)
	p.set(func() { p.down = true })
	g.due(t)
	bob.exchange(t)
	p.set(func() { p.down, p.gone["bob"] = false, true })
	g.due(t)
	_, err = bob.try(t)
	wantInvalid(t, err, "the session of a person who left")

	for sample, want := range map[string]float64{
		`leat_signin_attempts_total{outcome="signed_in",provider="corp"}`:     3,
		`leat_signin_attempts_total{outcome="foreign",provider=""}`:           1,
		`leat_signin_renewals_total{outcome="confirmed",provider="corp"}`:     1,
		`leat_signin_renewals_total{outcome="provider_away",provider="corp"}`: 1,
		`leat_signin_renewals_total{outcome="ended",provider="corp"}`:         1,
		`leat_signin_exchange_duration_seconds_count{outcome="ok"}`:           4,
		`leat_signin_exchange_duration_seconds_count{outcome="token_reused"}`: 1,
		`leat_signin_exchange_duration_seconds_count{outcome="ended"}`:        1,
		`leat_signin_sessions{client="browser"}`:                              1,
		`leat_signin_sessions{client="cli"}`:                                  0,
		`leat_signin_sessions{client="device"}`:                               0,
	} {
		await.True(t, sample, func() bool {
			value, ok := sampleOf(t, scrape, sample)
			if ok && value != want {
				t.Logf("%s: got %v, want %v", sample, value, want)
			}
			return ok && value == want
		})
	}
}

// scopeLabels are the labels of every sample that name the code.
var scopeLabels = regexp.MustCompile(`otel_scope_[a-z_]+="[^"]*",?`)

// sampleOf returns the value of a sample, written with its labels in order.
func sampleOf(t *testing.T, address, sample string) (float64, bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		line = strings.Replace(scopeLabels.ReplaceAllString(strings.TrimSpace(line), ""), ",}", "}", 1)
		if text, ok := strings.CutPrefix(line, sample+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			return value, err == nil
		}
	}
	return 0, false
}
