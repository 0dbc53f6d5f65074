// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/oauth2"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

func (h *hub) sessions(t *testing.T, token string) fleetv1connect.SessionServiceClient {
	t.Helper()
	c := h.client(t, token)
	return fleetv1connect.NewSessionServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

func sum(text string) []byte {
	hash := sha256.Sum256([]byte(text))
	return hash[:]
}

func newToken() string { return "leatses_" + rand.Text() + rand.Text() }

// holder is a command line with a session.
type holder struct {
	sessions fleetv1connect.SessionServiceClient
	id       string
	token    string
}

// exchange trades the session for an access token, and keeps the next token of the session.
func (h *holder) exchange(t *testing.T) *fleetv1.SessionServiceCreateAccessTokenResponse {
	t.Helper()
	res, err := h.try(t)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (h *holder) try(t *testing.T) (*fleetv1.SessionServiceCreateAccessTokenResponse, error) {
	t.Helper()
	next := newToken()
	res, err := h.present(t, h.token, next)
	if err == nil {
		h.token = next
	}
	return res, err
}

func (h *holder) present(t *testing.T, token, next string) (*fleetv1.SessionServiceCreateAccessTokenResponse, error) {
	t.Helper()
	return h.sessions.CreateAccessToken(t.Context(), &fleetv1.SessionServiceCreateAccessTokenRequest{
		SessionToken: h.id + "." + token, NextTokenHash: sum(next),
	})
}

// cliLogin is the address that a command line opens, and what it keeps meanwhile.
type cliLogin struct{ url, verifier, state string }

func (g *gate) cliLogin(provider string) cliLogin {
	c := cliLogin{verifier: oauth2.GenerateVerifier(), state: rand.Text()}
	query := url.Values{
		"redirect_uri": {"http://127.0.0.1:49152/callback"}, "state": {c.state},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(c.verifier)}, "code_challenge_method": {"S256"},
	}
	if provider != "" {
		query.Set("provider", provider)
	}
	c.url = g.front.URL + "/login?" + query.Encode()
	return c
}

// codeAt returns the code with which a browser comes back to the command line.
func (c cliLogin) codeAt(t *testing.T, end seen) string {
	t.Helper()
	if end.status != http.StatusSeeOther || end.location == nil || end.location.Host != "127.0.0.1:49152" || end.location.Path != "/callback" {
		t.Fatalf("got %d to %v, want the command line's address:\n%s", end.status, end.location, end.body)
	}
	if got := end.location.Query().Get("state"); got != c.state {
		t.Fatalf("got state %q, want %q", got, c.state)
	}
	return end.location.Query().Get("code")
}

// login signs a person in at a command line.
func (g *gate) login(t *testing.T, provider, name string) *holder {
	t.Helper()
	c := g.cliLogin(provider)
	code := c.codeAt(t, g.browser(t).signIn(t, c.url, name))
	return g.redeem(t, code, c.verifier)
}

func (g *gate) redeem(t *testing.T, code, verifier string) *holder {
	t.Helper()
	h := &holder{sessions: g.sessions(t, ""), token: newToken()}
	res, err := h.sessions.CreateSession(t.Context(), &fleetv1.CreateSessionRequest{
		Proof: &fleetv1.CreateSessionRequest_Code{Code: code}, CodeVerifier: verifier, TokenHash: sum(h.token),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.id = res.GetSession().GetId()
	return h
}

// whoami returns the subject and groups of an access token's bearer, as the hub sees them.
func (g *gate) whoami(t *testing.T, token string) (string, []string, error) {
	t.Helper()
	info, err := g.fleet(t, token).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
	return info.GetSubject(), info.GetGroups(), err
}

func wantInvalid(t *testing.T, err error, what string) {
	t.Helper()
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("%s: got %v, want unauthenticated", what, err)
	}
}

// TestSignInWithBrowser signs a person in by a real provider, and uses the session at the hub and
// for a cluster.
func TestSignInWithBrowser(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	p := startOpenID(t, g.front.URL, "the secret of corp", "ada")
	p.groups["ada"] = []string{"dev", "platform", "leat:admins", "system:masters", "two words"}
	g.provide(t, "corp", p, func(s *fleetv1.IdentityProviderSpec) { s.Groups = map[string]string{"platform": "ops"} })
	g.apply(t, clusterDocument("one"))
	g.bind(t, "devs", &fleetv1.AccessBindingSpec{Groups: []string{"corp:dev"}, Clusters: named("one"), Role: viewer})

	methods, err := g.sessions(t, "").GetSignInMethods(t.Context(), &fleetv1.GetSignInMethodsRequest{})
	if err != nil || methods.GetLoginUrl() != g.front.URL+"/login" || len(methods.GetMethods()) != 1 || methods.GetMethods()[0].GetName() != "corp" {
		t.Fatalf("got %v, %v, want corp", methods, err)
	}
	ada := g.login(t, "", "ada")
	first := ada.exchange(t)
	subject, groups, err := g.whoami(t, first.GetAccessToken())
	if want := []string{"corp:dev", "corp:leat:admins", "corp:system:masters", "ops"}; err != nil || subject != "user:corp.ada" || !slices.Equal(groups, want) {
		t.Errorf("got %s %v, %v; want user:corp.ada %v", subject, groups, err, want)
	}
	if life := time.Until(first.GetExpireTime().AsTime()); life > 15*time.Minute || life < 7*time.Minute {
		t.Errorf("got an access token of %s, want one that ends when the claims are read again", life)
	}
	id := g.verified(t, first.GetAccessToken())
	if res := g.check(t, id, "one"); !res.GetAllowed() || res.GetUser() != "corp.ada" || !slices.Contains(res.GetGroups(), "leat:viewers") {
		t.Errorf("got %v, want a viewer of the cluster", res)
	}
	if _, err := g.fleet(t, first.GetAccessToken()).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v, want no access token for an access token", err)
	}
	ada.exchange(t) // with the token that followed
}

// TestSessionsEnd ends sessions in each way, and asks the hub and the tunnel's question afterwards.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *gate, *holder){
		"signed out": func(t *testing.T, _ *gate, h *holder) {
			if _, err := h.sessions.SignOut(t.Context(), &fleetv1.SignOutRequest{SessionToken: h.id + "." + h.token}); err != nil {
				t.Fatal(err)
			}
		},
		"revoked by its person": func(t *testing.T, g *gate, h *holder) {
			token := h.exchange(t).GetAccessToken()
			res, err := g.sessions(t, token).RevokeSession(t.Context(), &fleetv1.RevokeSessionRequest{Id: h.id})
			if err != nil || res.GetRevoked() != 1 {
				t.Fatal(res, err)
			}
		},
		"all of a person revoked": func(t *testing.T, g *gate, _ *holder) {
			res, err := g.sessions(t, adminToken).RevokeSession(t.Context(), &fleetv1.RevokeSessionRequest{Person: "corp.ada"})
			if err != nil || res.GetRevoked() != 1 {
				t.Fatal(res, err)
			}
		},
		"provider deleted": func(t *testing.T, g *gate, _ *holder) {
			if err := fleetcalls.Delete[*fleetv1.IdentityProvider](t.Context(), g.admin, "corp"); err != nil {
				t.Fatal(err)
			}
		},
		"name given to a user of the hub": func(t *testing.T, g *gate, h *holder) {
			g.provideUser(t, g.person(t, h))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			p := startOpenID(t, g.front.URL, "the secret of corp", "ada")
			p.groups["ada"] = []string{"root"}
			g.provide(t, "corp", p, func(s *fleetv1.IdentityProviderSpec) {
				s.Groups = map[string]string{"root": "leat:admins"}
				if name == "name given to a user of the hub" {
					s.UsernameClaim = "preferred_username"
				}
			})
			ada := g.login(t, "corp", "ada")
			token := ada.exchange(t).GetAccessToken()
			if _, groups, err := g.whoami(t, token); err != nil || !slices.Contains(groups, "leat:admins") {
				t.Fatalf("got %v, %v, want an administrator", groups, err)
			}
			id := g.verified(t, token)
			end(t, g, ada)
			if _, _, err := g.whoami(t, token); err == nil {
				t.Error("the access token still counts")
			} else {
				wantInvalid(t, err, "access token")
			}
			g.apply(t, clusterDocument("one"))
			if res := g.check(t, id, "one"); res.GetAllowed() {
				t.Errorf("got %v, want the tunnel to be told no", res)
			}
			if name != "name given to a user of the hub" {
				_, err := ada.try(t)
				wantInvalid(t, err, "session")
			}
		})
	}
}

func (g *gate) person(t *testing.T, h *holder) string {
	t.Helper()
	return h.exchange(t).GetSession().GetPerson()
}

func (g *gate) provideUser(t *testing.T, name string) {
	t.Helper()
	g.join(t, name)
}

// TestSecStolenSessions presents tokens of a session a second time: with the same successor it is a
// repetition, with another one it ends the session.
func TestSecStolenSessions(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	ada := g.login(t, "", "ada")
	old, next := ada.token, newToken()
	if _, err := ada.present(t, old, next); err != nil {
		t.Fatal(err)
	}
	// The answer was lost: the same request is repeated.
	repeated, err := ada.present(t, old, next)
	if err != nil {
		t.Fatal(err)
	}
	ada.token = next
	ada.exchange(t)
	_, err = ada.present(t, old, newToken())
	wantInvalid(t, err, "a token that was used before")
	_, err = ada.try(t)
	wantInvalid(t, err, "the session whose token was stolen")
	_, _, err = g.whoami(t, repeated.GetAccessToken())
	wantInvalid(t, err, "an access token of that session")

	// Secrets that others know of a session, or make up, end nothing.
	eve := g.login(t, "", "ada")
	for _, guess := range []string{"leatses_guess", "", "x", eve.token + "x"} {
		_, err := eve.present(t, guess, newToken())
		wantInvalid(t, err, "guess "+guess)
	}
	if _, err := eve.sessions.SignOut(t.Context(), &fleetv1.SignOutRequest{SessionToken: eve.id + ".leatses_guess"}); err != nil {
		t.Error(err)
	}
	eve.exchange(t)
}

// TestSecCodesOfACommandLine redeems a code twice, late, with another verifier, and for another
// purpose.
func TestSecCodesOfACommandLine(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	redeem := func(code, verifier, token string) error {
		_, err := g.sessions(t, "").CreateSession(t.Context(), &fleetv1.CreateSessionRequest{
			Proof: &fleetv1.CreateSessionRequest_Code{Code: code}, CodeVerifier: verifier, TokenHash: sum(token),
		})
		return err
	}
	c := g.cliLogin("")
	code := c.codeAt(t, g.browser(t).signIn(t, c.url, "ada"))
	if strings.HasPrefix(code, "leatses_") || len(code) < 40 {
		t.Errorf("got code %q", code)
	}
	wantInvalid(t, redeem(code[:len(code)-2]+"AA", c.verifier, newToken()), "a code that was changed")
	wantInvalid(t, redeem(code, oauth2.GenerateVerifier(), newToken()), "another verifier")
	wantInvalid(t, redeem(code, c.verifier, newToken()), "a code after a wrong verifier")

	c = g.cliLogin("")
	code = c.codeAt(t, g.browser(t).signIn(t, c.url, "ada"))
	token := newToken()
	for range 2 { // the second is a repetition
		if err := redeem(code, c.verifier, token); err != nil {
			t.Fatal(err)
		}
	}
	ada := g.redeemed(t, token)
	wantInvalid(t, redeem(code, c.verifier, newToken()), "a code that was redeemed before")
	_, err := ada.try(t)
	wantInvalid(t, err, "the session of a code that came twice")

	device, err := g.sessions(t, "").StartDeviceSignIn(t.Context(), &fleetv1.StartDeviceSignInRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, redeem(device.GetDeviceCode(), c.verifier, newToken()), "a device's code as one of a command line")
}

// redeemed returns the holder of the only session that there is.
func (g *gate) redeemed(t *testing.T, token string) *holder {
	t.Helper()
	list, err := g.sessions(t, adminToken).ListSessions(t.Context(), &fleetv1.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) != 1 {
		t.Fatalf("got %v, %v, want one session", list, err)
	}
	return &holder{sessions: g.sessions(t, ""), id: list.GetSessions()[0].GetId(), token: token}
}

// TestSignInOfADevice types the code of a machine without a browser at the hub.
func TestSignInOfADevice(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	sessions := g.sessions(t, "")
	device, err := sessions.StartDeviceSignIn(t.Context(), &fleetv1.StartDeviceSignInRequest{})
	if err != nil || device.GetVerificationUrl() != g.front.URL+"/device" {
		t.Fatal(device, err)
	}
	token := newToken()
	poll := func() (*fleetv1.CreateSessionResponse, error) {
		return sessions.CreateSession(t.Context(), &fleetv1.CreateSessionRequest{
			Proof: &fleetv1.CreateSessionRequest_DeviceCode{DeviceCode: device.GetDeviceCode()}, TokenHash: sum(token),
		})
	}
	if res, err := poll(); err != nil || res.GetSession() != nil {
		t.Fatalf("got %v, %v, want the hub to wait", res, err)
	}
	end := g.typeCode(t, g.browser(t), strings.ToLower(strings.ReplaceAll(device.GetUserCode(), "-", " ")), "ada")
	if end.status != http.StatusOK || !strings.Contains(end.body, "signed in as corp.ada") || !strings.Contains(end.body, device.GetUserCode()) {
		t.Fatalf("got %d:\n%s", end.status, end.body)
	}
	for range 2 {
		res, err := poll()
		if err != nil || res.GetSession().GetPerson() != "corp.ada" || res.GetSession().GetClient() != fleetv1.SessionClient_SESSION_CLIENT_DEVICE {
			t.Fatalf("got %v, %v, want ada's session", res, err)
		}
		token := g.redeemed(t, token)
		if res.GetSession().GetId() != token.id {
			t.Errorf("got session %s, want %s", res.GetSession().GetId(), token.id)
		}
	}
	ada := g.redeemed(t, token)
	ada.exchange(t)
	// Another answer to the same code gives no session, and ends nothing.
	token = newToken()
	if res, err := poll(); err != nil || res.GetSession() != nil {
		t.Errorf("got %v, %v, want no session", res, err)
	}
	ada.exchange(t)
}

// typeCode types a code at /device and signs in.
func (g *gate) typeCode(t *testing.T, b *browser, code, name string) seen {
	t.Helper()
	page := b.do(t, http.MethodGet, g.front.URL+"/device", nil)
	asked := b.do(t, http.MethodPost, g.front.URL+"/device", url.Values{"form": {formOf(t, page)}, "code": {code}}, "Sec-Fetch-Site", "same-origin")
	return b.signIn(t, g.front.URL+linkOf(t, asked), name)
}

func formOf(t *testing.T, page seen) string {
	t.Helper()
	_, rest, found := strings.Cut(page.body, `name="form" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("got no form:\n%s", page.body)
	}
	return value
}

func linkOf(t *testing.T, page seen) string {
	t.Helper()
	_, rest, found := strings.Cut(page.body, `<a href="`)
	value, _, _ := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("got no link:\n%s", page.body)
	}
	return strings.ReplaceAll(value, "&amp;", "&")
}

// TestSecForeignDevices has pages of other sites send a person through /device with their own
// codes.
func TestSecForeignDevices(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	ada, eve := g.browser(t), g.browser(t)
	own := formOf(t, ada.do(t, http.MethodGet, g.front.URL+"/device", nil))
	foreign := formOf(t, eve.do(t, http.MethodGet, g.front.URL+"/device", nil))
	for name, attempt := range map[string]struct {
		form string
		site string
	}{
		"form of another browser": {foreign, "same-origin"}, "no form": {"", "same-origin"}, "from another site": {own, "cross-site"},
	} {
		got := ada.do(t, http.MethodPost, g.front.URL+"/device", url.Values{"form": {attempt.form}, "code": {"WDJB-MJHT"}}, "Sec-Fetch-Site", attempt.site)
		if got.status != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", name, got.status)
		}
	}
	// A link that eve's browser was given leads ada nowhere.
	asked := eve.do(t, http.MethodPost, g.front.URL+"/device", url.Values{"form": {foreign}, "code": {"WDJB-MJHT"}}, "Sec-Fetch-Site", "same-origin")
	if got := ada.do(t, http.MethodGet, g.front.URL+linkOf(t, asked), nil); got.status != http.StatusBadRequest {
		t.Errorf("got %d at %s, want eve's link refused", got.status, got.url)
	}
	if got := ada.do(t, http.MethodGet, g.front.URL+"/device", nil, "Sec-Fetch-Dest", "iframe"); got.status != http.StatusForbidden {
		t.Errorf("got %d, want no page in a frame", got.status)
	}
	if got := ada.do(t, http.MethodPost, g.front.URL+"/device", url.Values{"form": {own}, "code": {"<b>AEIOU"}}, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusUnprocessableEntity || strings.Contains(got.body, "<b>") {
		t.Errorf("got %d:\n%s", got.status, got.body)
	}
}

// TestSecLoginLeadsNowhereElse asks the hub to send codes and people to addresses that are not
// theirs.
func TestSecLoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	p := g.company(t, "corp", "ada")
	b := g.browser(t)
	good := g.cliLogin("").url
	change := func(name, value string) string {
		u, _ := url.Parse(good)
		query := u.Query()
		query.Set(name, value)
		if value == "" {
			query.Del(name)
		}
		u.RawQuery = query.Encode()
		return u.String()
	}
	attempts := []string{
		good + "&state=twice", g.front.URL + "/login?ticket=made-up", change("state", ""), change("state", "a b"),
		change("code_challenge", ""), change("code_challenge", "short"), change("code_challenge_method", "plain"), change("code_challenge_method", ""),
	}
	for _, to := range []string{
		"https://evil.example/callback", "http://evil.example/callback", "http://127.0.0.1/callback", "http://localhost:1/callback",
		"http://127.0.0.1:1/other", "http://127.0.0.1:1/callback?x=1", "http://127.0.0.1:1/callback#x", "http://user@127.0.0.1:1/callback",
		"http://127.0.0.1.evil.example:1/callback", "http://127.0.0.1:1@evil.example/callback", "http://[::ffff:127.0.0.1]:1/callback",
		"javascript:alert(1)", "//127.0.0.1:1/callback", "http://127.0.0.1:1/callback/../x", "http://10.0.0.1:1/callback", "HTTP://127.0.0.1:1/callback",
	} {
		attempts = append(attempts, change("redirect_uri", to))
	}
	for _, to := range []string{
		"https://evil.example/ui/", "//evil.example/ui/", "/\\evil.example/ui/", "/ui", "/clusters/one/", "/ui/../clusters/one/", "/ui//evil.example",
		"/ui/%2e%2e/clusters/", "javascript:alert(1)", "/ui/\\evil.example", "ui/x",
	} {
		attempts = append(attempts, g.front.URL+"/login?return="+url.QueryEscape(to))
	}
	for _, address := range attempts {
		if got := b.do(t, http.MethodGet, address, nil); got.status != http.StatusBadRequest || got.url.Path != "/login" {
			t.Errorf("%s: got %d at %s, want it refused", address, got.status, got.url)
		}
	}
	if end := b.signIn(t, g.front.URL+"/login?return=/ui/services", "ada"); end.url.Path != "/ui/services" {
		t.Errorf("got %s, want the hub's own page", end.url)
	}

	// Answers of the provider that do not belong to a sign-in of this browser.
	pages := map[string]string{}
	for name, query := range map[string]string{
		"no transaction": "code=x&state=y", "nothing": "", "hostile": "error=%3Cscript%3E&state=x",
	} {
		pages[name] = g.front.URL + "/login/callback?" + query
	}
	for name, address := range pages {
		if got := g.browser(t).do(t, http.MethodGet, address, nil); got.status != http.StatusBadRequest || strings.Contains(got.body, "<script") {
			t.Errorf("%s: got %d:\n%s", name, got.status, got.body)
		}
	}
	form := b.do(t, http.MethodGet, g.cliLogin("").url, nil)
	wrong := b.do(t, http.MethodGet, g.front.URL+"/login/callback?code=x&state=other", nil)
	if wrong.status != http.StatusBadRequest {
		t.Errorf("state: got %d, want 400", wrong.status)
	}
	if late := b.typeAt(t, form, "ada"); late.status != http.StatusBadRequest {
		t.Errorf("got %d, want the transaction used up by the first answer", late.status)
	}

	// The requests of a finished sign-in, sent again.
	b = g.browser(t)
	var answer *url.URL
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/login/callback" {
			answer = r.URL
		}
		if r.URL.Path == "/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	c := g.cliLogin("")
	c.codeAt(t, b.signIn(t, c.url, "ada"))
	if again := b.do(t, http.MethodGet, answer.String(), nil); again.status != http.StatusBadRequest {
		t.Errorf("replay: got %d, want 400", again.status)
	}
	if reads := func() int { p.mu.Lock(); defer p.mu.Unlock(); return p.keyed }(); reads > 2 {
		t.Errorf("the provider's keys were read %d times", reads)
	}
	for _, header := range []string{"Content-Security-Policy", "Referrer-Policy", "Cache-Control", "X-Frame-Options"} {
		if form := b.do(t, http.MethodGet, g.front.URL+"/device", nil); form.header.Get(header) == "" {
			t.Errorf("a page has no %s", header)
		}
	}
}

// TestSecCookieOfABrowser uses the session of a browser as pages of other sites, other services and
// other methods would.
func TestSecCookieOfABrowser(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	b := g.browser(t)
	if end := b.signIn(t, g.front.URL+"/login", "ada"); end.status != http.StatusOK || !strings.Contains(end.body, "corp.ada") {
		t.Fatalf("got %d:\n%s", end.status, end.body)
	}
	address, _ := url.Parse(g.front.URL)
	cookies := b.Jar.Cookies(address)
	i := slices.IndexFunc(cookies, func(c *http.Cookie) bool { return c.Name == "__Host-leat-session" })
	if i < 0 {
		t.Fatalf("got %v, want a session", cookies)
	}
	kept := cookies[i].Name + "=" + cookies[i].Value
	call := func(procedure string, header ...string) seen {
		return g.browser(t).post(t, g.front.URL+procedure, append(header, "Cookie", kept)...)
	}
	exchange := "/" + fleetv1connect.SessionServiceName + "/CreateAccessToken"
	if got := call(exchange, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusOK || !strings.Contains(got.body, "accessToken") {
		t.Fatalf("got %d %s, want the hub's own page to have a token", got.status, got.body)
	}
	for name, headers := range map[string][]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "another origin": {"Sec-Fetch-Site", "same-site"}, "typed": {"Sec-Fetch-Site", "none"},
		"old browser":            {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
		"not a browser":          {"Sec-Fetch-Site", ""},
		"foreign origin, forged": {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		if got := call(exchange, headers...); got.status != http.StatusForbidden || strings.Contains(got.body, "accessToken") {
			t.Errorf("%s: got %d %s, want 403", name, got.status, got.body)
		}
	}
	for _, procedure := range []string{
		"/" + fleetv1connect.FleetServiceName + "/GetServerInfo", "/" + fleetv1connect.FleetServiceName + "/List",
		"/" + fleetv1connect.FleetServiceName + "/CreateAccessToken", "/" + fleetv1connect.SessionServiceName + "/ListSessions",
		"/" + fleetv1connect.SessionServiceName + "/RevokeSession",
	} {
		if got := call(procedure, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want a cookie to sign in nobody", procedure, got.status)
		}
	}
	if got := call("/"+fleetv1connect.SessionServiceName+"/SignOut", "Sec-Fetch-Site", "cross-site"); got.status != http.StatusForbidden {
		t.Errorf("sign-out by another site: got %d", got.status)
	}
	if got := call("/"+fleetv1connect.SessionServiceName+"/SignOut", "Sec-Fetch-Site", "same-origin"); got.status != http.StatusOK ||
		!strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") || got.header.Get("Clear-Site-Data") == "" {
		t.Errorf("sign-out: got %d %v", got.status, got.header)
	}
	if got := call(exchange, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusUnauthorized {
		t.Errorf("got %d, want the session to have ended", got.status)
	}
}

// post makes a call as JSON.
func (b *browser) post(t *testing.T, address string, header ...string) seen {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			request.Header.Del(header[i])
		}
	}
	client := *b.Client
	client.Jar, client.Transport = nil, b.gate.front.Client().Transport
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return read(t, response)
}

// TestTwoProviders signs in people of two providers that give them the same name.
func TestTwoProviders(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	other := g.company(t, "partner", "ada")
	which := g.browser(t).do(t, http.MethodGet, g.front.URL+"/login", nil)
	if strings.Count(which.body, "<a href=") != 2 || !strings.Contains(which.body, "Sign in with partner") {
		t.Fatalf("got no choice:\n%s", which.body)
	}
	subjects := map[string]bool{}
	for _, provider := range []string{"corp", "partner"} {
		subject, _, err := g.whoami(t, g.login(t, provider, "ada").exchange(t).GetAccessToken())
		if err != nil || subject != "user:"+provider+".ada" {
			t.Errorf("got %s, %v", subject, err)
		}
		subjects[subject] = true
	}
	if len(subjects) != 2 {
		t.Errorf("got %v, want two people", subjects)
	}
	// A name that a user of the hub has is not for others.
	g.join(t, "bob")
	p := startOpenID(t, g.front.URL, "the secret of names", "bob")
	g.provide(t, "names", p, func(s *fleetv1.IdentityProviderSpec) { s.UsernameClaim = "preferred_username" })
	if end := g.browser(t).signIn(t, g.cliLogin("names").url, "bob"); end.status != http.StatusForbidden || !strings.Contains(end.body, "already has your name") {
		t.Errorf("got %d:\n%s", end.status, end.body)
	}
	g.provide(t, "partner", other, func(s *fleetv1.IdentityProviderSpec) {
		s.Require = []*fleetv1.ClaimRequirement{{Claim: "hd", Values: []string{"example.com"}}}
	})
	if end := g.browser(t).signIn(t, g.cliLogin("partner").url, "ada"); end.status != http.StatusForbidden || !strings.Contains(end.body, "&#34;hd&#34;") {
		t.Errorf("got %d:\n%s", end.status, end.body)
	}
}

// TestProviderAway stops the provider: people who are signed in stay signed in, and new ones are
// told.
func TestProviderAway(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	p := startOpenID(t, g.front.URL, "the secret of corp", "ada")
	g.provide(t, "corp", p, func(s *fleetv1.IdentityProviderSpec) { s.Renew = durationpb.New(5 * time.Minute) })
	ada := g.login(t, "", "ada")
	form := g.browser(t)
	page := form.do(t, http.MethodGet, g.cliLogin("").url, nil)
	p.set(func() { p.down = true })
	if _, _, err := g.whoami(t, ada.exchange(t).GetAccessToken()); err != nil {
		t.Errorf("got %v, want ada to go on", err)
	}
	if page.status != http.StatusOK {
		t.Fatalf("got %d", page.status)
	}
	g.provide(t, "corp", p, func(s *fleetv1.IdentityProviderSpec) { s.Title = "Corp" }) // so that it is asked again
	if end := g.browser(t).do(t, http.MethodGet, g.cliLogin("").url, nil); end.status != http.StatusBadGateway || !strings.Contains(end.body, "Corp does not answer") {
		t.Errorf("got %d:\n%s", end.status, end.body)
	}
}

// TestSecKeysOfAProvider replaces the provider's key, and has a token signed by one that it does
// not name.
func TestSecKeysOfAProvider(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	p := g.company(t, "corp", "ada")
	g.login(t, "", "ada")
	p.rotate(t)
	g.login(t, "", "ada")
	before := func() int { p.mu.Lock(); defer p.mu.Unlock(); return p.keyed }()
	p.rotate(t) // a second time within the minute: the key is not known yet
	for range 3 {
		c := g.cliLogin("")
		if end := g.browser(t).signIn(t, c.url, "ada"); end.status != http.StatusBadGateway {
			t.Errorf("got %d, want a key that nobody knows refused", end.status)
		}
	}
	if after := func() int { p.mu.Lock(); defer p.mu.Unlock(); return p.keyed }(); after != before {
		t.Errorf("the keys were read %d more times within a minute, want none", after-before)
	}
}

// TestSecretsOfProviders shows a provider to people: its secret is never part of an answer, and is
// not sent for another client.
func TestSecretsOfProviders(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	got, err := fleetcalls.Get[*fleetv1.IdentityProvider](t.Context(), g.admin, "corp")
	if err != nil || got.GetSpec().ClientSecret != nil || got.GetStatus().GetRedirectUri() != g.front.URL+"/login/callback" {
		t.Fatalf("got %v, %v", got, err)
	}
	shown := got
	shown.Spec.Title = "Corp"
	if _, err := fleetcalls.Update(t.Context(), g.admin, shown); err != nil {
		t.Fatal(err)
	}
	g.login(t, "", "ada") // the secret was kept
	for name, change := range map[string]func(*fleetv1.IdentityProviderSpec){
		"client_secret": func(s *fleetv1.IdentityProviderSpec) { s.ClientId = "other" },
		"issuer":        func(s *fleetv1.IdentityProviderSpec) { s.Issuer = "https://other.example" },
		"renew":         func(s *fleetv1.IdentityProviderSpec) { s.Renew = durationpb.New(time.Second) },
		"group_prefix":  func(s *fleetv1.IdentityProviderSpec) { s.GroupPrefix = new("leat:") },
		"groups[x]":     func(s *fleetv1.IdentityProviderSpec) { s.Groups = map[string]string{"x": "system:masters"} },
		"ca_pem":        func(s *fleetv1.IdentityProviderSpec) { s.CaPem = "x" },
		"scopes[0]":     func(s *fleetv1.IdentityProviderSpec) { s.Scopes = []string{"a b"} },
	} {
		got, err := fleetcalls.Get[*fleetv1.IdentityProvider](t.Context(), g.admin, "corp")
		if err != nil {
			t.Fatal(err)
		}
		change(got.GetSpec())
		_, err = fleetcalls.Update(t.Context(), g.admin, got)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

// TestSessionsAreSeen lists sessions as their people, as others and as administrators.
func TestSessionsAreSeen(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada", "bob")
	ada, bob := g.login(t, "", "ada"), g.login(t, "", "bob")
	g.login(t, "", "ada")
	asAda, asBob := g.sessions(t, ada.exchange(t).GetAccessToken()), g.sessions(t, bob.exchange(t).GetAccessToken())
	all, err := g.sessions(t, adminToken).ListSessions(t.Context(), &fleetv1.ListSessionsRequest{Page: &typev1.Page{Size: 2}})
	if err != nil || len(all.GetSessions()) != 2 || all.GetNextPageToken() == "" {
		t.Fatal(all, err)
	}
	rest, err := g.sessions(t, adminToken).ListSessions(t.Context(), &fleetv1.ListSessionsRequest{Page: &typev1.Page{Token: all.GetNextPageToken()}})
	if err != nil || len(rest.GetSessions()) != 1 || rest.GetSessions()[0].GetPerson() != "corp.bob" {
		t.Fatal(rest, err)
	}
	if own, err := asAda.ListSessions(t.Context(), &fleetv1.ListSessionsRequest{}); err != nil || len(own.GetSessions()) != 2 || own.GetSessions()[0].GetLastUsedTime() == nil {
		t.Errorf("got %v, %v, want ada's two", own, err)
	}
	if _, err := asAda.ListSessions(t.Context(), &fleetv1.ListSessionsRequest{Person: "corp.bob"}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v, want ada not to see bob's", err)
	}
	if _, err := asBob.RevokeSession(t.Context(), &fleetv1.RevokeSessionRequest{Id: ada.id}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v, want ada's session not to exist for bob", err)
	}
	if _, err := asBob.RevokeSession(t.Context(), &fleetv1.RevokeSessionRequest{Person: "corp.ada"}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v", err)
	}
	ada.exchange(t)
	shown, err := fleetcalls.Get[*fleetv1.IdentityProvider](t.Context(), g.admin, "corp")
	if err != nil || shown.GetStatus().GetSessions() != 3 {
		t.Errorf("got %v, %v, want three sessions", shown.GetStatus(), err)
	}
}

// TestSessionsOfReplicas begins a session at one replica and ends it at another.
func TestSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.company(t, "corp", "ada")
	other := startReplica(t, g.git, func(c *distributor.Config) {
		c.DatabaseURL, c.PublicURL, c.AllowLocalAgents = g.cfg.DatabaseURL, g.cfg.PublicURL, true
	})
	ada := g.login(t, "", "ada")
	ada.sessions = other.sessions(t, "")
	token := ada.exchange(t).GetAccessToken()
	if _, err := other.fleet(t, token).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.sessions(t, token).RevokeSession(t.Context(), &fleetv1.RevokeSessionRequest{Id: ada.id}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the first replica to know that the session ended", func() bool {
		_, _, err := g.whoami(t, token)
		return connect.CodeOf(err) == connect.CodeUnauthenticated
	})
}

// due makes the claims of all sessions due to be read again.
func (g *gate) due(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(g.cfg.DatabaseURL, "sqlite://")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "UPDATE sessions SET renew_at = 1, renewing_until = 0"); err != nil {
		t.Fatal(err)
	}
}

// TestClaimsAreReadAgain changes a person at the provider while they are signed in.
func TestClaimsAreReadAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	p := g.company(t, "corp", "ada")
	p.set(func() { p.groups["ada"] = []string{"dev"} })
	ada := g.login(t, "", "ada")
	groupsAfter := func(want ...string) {
		t.Helper()
		g.due(t)
		if _, groups, err := g.whoami(t, ada.exchange(t).GetAccessToken()); err != nil || !slices.Equal(groups, want) {
			t.Errorf("got %v, %v, want %v", groups, err, want)
		}
	}
	groupsAfter("corp:dev")
	token := ada.exchange(t).GetAccessToken()
	p.set(func() { p.groups["ada"] = []string{"ops"} })
	groupsAfter("corp:ops") // and the refresh token that came with the answer before was the right one
	if _, groups, err := g.whoami(t, token); err != nil || !slices.Equal(groups, []string{"corp:ops"}) {
		t.Errorf("got %v, %v, want older access tokens to have the groups of now", groups, err)
	}

	p.set(func() { p.down = true })
	groupsAfter("corp:ops")
	p.set(func() { p.down, p.gone["ada"] = false, true })
	ada.exchange(t) // the provider is not asked again within 30 s of its silence
	g.due(t)
	_, err := ada.try(t)
	wantInvalid(t, err, "a person who left at the provider")
	_, _, err = g.whoami(t, token)
	wantInvalid(t, err, "an access token of that person")
}
