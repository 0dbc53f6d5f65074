// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

const (
	sessionCookie = "__Host-leat-session"
	ownPage       = "/a-page-of-the-hub" // of its origin, and without a policy of its own
)

// call returns a script that makes a call in a page, with the page's cookies, and resolves to the
// status and the answer.
func callOf(procedure, body string, headers ...string) string {
	all := "'content-type': 'application/json'"
	for _, header := range headers {
		all += ", " + header
	}
	return fmt.Sprintf(`fetch(%q, {method: 'POST', credentials: 'include', headers: {%s}, body: %q})
		.then(async r => ({status: r.status, body: await r.json().catch(() => ({}))}))`, procedure, all, body)
}

// answer is the result of a call.
type answer struct {
	Status int `json:"status"`
	Body   struct {
		AccessToken string `json:"accessToken"`
		Revoked     int    `json:"revoked"`
	} `json:"body"`
}

func exchangeOf(audience string) string {
	return callOf(fleetv1connect.SessionServiceCreateAccessTokenProcedure, fmt.Sprintf(`{"audience": %q}`, audience))
}

// atHome opens a page of the hub's own origin, as a page of the UI would be.
func (h *hub) atHome(t *testing.T, b *tab) {
	t.Helper()
	b.open(t, h.front.url(hubName)+ownPage)
}

// TestSecSessionInABrowser reads the cookie as the browser keeps it, and uses it as the hub's own
// pages do: it buys tokens, and is sent to clusters' paths, where it does not authenticate.
func TestSecSessionInABrowser(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	h.signIn(t, b, "ada")
	b.checkPage(t)
	cookies := b.cookies(t)
	if len(cookies) != 1 {
		t.Fatalf("got cookies %+v, want the session alone: those of the sign-in are used up", cookies)
	}
	if c := cookies[0]; c.Name != sessionCookie || c.Domain != hubName || c.Path != "/" || !c.Secure || !c.HTTPOnly || c.SameSite != network.CookieSameSiteStrict {
		t.Errorf("got %+v, want a strict cookie of this host alone that no script reads", c)
	}
	h.atHome(t, b)
	if visible := script[string](t, b, "document.cookie"); visible != "" {
		t.Errorf("a script reads %q", visible)
	}
	// A page cannot put another session in the place of this one, for this host or for those below.
	script[bool](t, b, fmt.Sprintf("document.cookie = '%s=forged; Secure; Path=/', true", sessionCookie))
	script[bool](t, b, fmt.Sprintf("document.cookie = '%s=forged; Secure; Path=/; Domain=leat.test', true", sessionCookie))
	got := script[answer](t, b, exchangeOf("tunnel"))
	if got.Status != 200 || got.Body.AccessToken == "" {
		t.Fatalf("got %+v, want a token for the hub's own page", got)
	}
	status := func(path, header string) int {
		t.Helper()
		return script[int](t, b, fmt.Sprintf("fetch(%q, {credentials: 'include', headers: {%s}}).then(r => r.status)", path, header))
	}
	h.front.seen()
	if got := status("/clusters/berlin/version", ""); got != 401 {
		t.Errorf("got %d for a cluster with the cookie, want 401", got)
	}
	if got := status("/clusters/berlin/version", "authorization: 'Bearer "+got.Body.AccessToken+"'"); got != 403 {
		t.Errorf("got %d for a cluster with the token, want the person to be known, and refused for want of a binding", got)
	}
	script[bool](t, b, `new Promise(done => { const i = new Image(); i.onload = i.onerror = () => done(true); i.src = '/clusters/berlin/api/v1/pods' })`)
	if got := status("/"+fleetv1connect.FleetServiceName+"/GetServerInfo?encoding=json&message=%7B%7D&connect=v1", ""); got != 401 {
		t.Errorf("got %d for a read of the fleet with the cookie, want 401", got)
	}
	b.open(t, h.front.url(hubName)+"/clusters/berlin/version")
	clusters := slices.DeleteFunc(h.front.seen(), func(c call) bool { return !strings.HasPrefix(c.path, "/clusters/") })
	if len(clusters) != 4 {
		t.Fatalf("got %+v, want four requests for the cluster", clusters)
	}
	for _, c := range clusters {
		if !slices.Equal(c.cookies, []string{sessionCookie}) || c.status != 401 && c.status != 403 {
			t.Errorf("got %+v, want the cookie to be sent and to count for nothing", c)
		}
	}
}

// TestSecOtherOriginsInABrowser has pages of another site, of another host of the hub's site, and of
// a cluster's host use the session of a person who visits them.
func TestSecOtherOriginsInABrowser(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	h.signIn(t, b, "ada")
	home := h.front.url(hubName)
	exchange, signOut := fleetv1connect.SessionServiceCreateAccessTokenProcedure, fleetv1connect.SessionServiceSignOutProcedure
	for name, host := range map[string]string{
		"another site": evilName, "the same site": "other." + clusterDomain + ".leat.test", "a cluster": "berlin." + clusterDomain,
	} {
		h.front.show(host, "/attack", "<!doctype html><title>attack</title><p>attack</p>")
		attack := b.another(t)
		attack.open(t, h.front.url(host)+"/attack")
		h.front.seen()
		for _, procedure := range []string{exchange, signOut} {
			for _, mode := range []string{
				"{method: 'POST', credentials: 'include', headers: {'content-type': 'application/json'}, body: '{}'}",
				"{method: 'POST', credentials: 'include', mode: 'no-cors', headers: {'content-type': 'text/plain'}, body: '{}'}",
				"{method: 'POST', credentials: 'include', mode: 'no-cors', body: new URLSearchParams({a: 'b'})}",
				"{method: 'GET', credentials: 'include', mode: 'no-cors'}",
			} {
				read := script[string](t, attack, fmt.Sprintf("fetch(%q, %s).then(r => r.text(), () => '')", home+procedure, mode))
				if strings.Contains(read, "leat") || strings.Contains(read, "accessToken") {
					t.Errorf("%s: a page reads %q", name, read)
				}
			}
			// A form leads a frame there: the page itself stays for the next attack.
			for _, encoding := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
				script[bool](t, attack, fmt.Sprintf(`new Promise(done => {
					const frame = document.createElement('iframe'); frame.name = 'f' + Math.random(); document.body.append(frame);
					const form = document.createElement('form');
					form.method = 'POST'; form.action = %q; form.enctype = %q; form.target = frame.name;
					const input = document.createElement('input'); input.name = '{"a":"'; input.value = '"}'; form.append(input); document.body.append(form);
					frame.onload = () => done(true); form.submit() })`, home+procedure, encoding))
			}
		}
		for _, path := range []string{"/login", "/device", "/ui/", ownPage, "/clusters/berlin/version"} {
			// No frame shows a page of the hub to another origin's script.
			if read := script[string](t, attack, fmt.Sprintf(`new Promise(done => {
				const frame = document.createElement('iframe'); frame.src = %q; document.body.append(frame);
				frame.onload = () => { try { done(frame.contentDocument ? frame.contentDocument.body.innerText : '') } catch { done('') } } })`, home+path)); read != "" {
				t.Errorf("%s: a frame of %s shows %q", name, path, read)
			}
			script[bool](t, attack, fmt.Sprintf(`new Promise(done => { const i = new Image(); i.onload = i.onerror = () => done(true); i.src = %q })`, home+path))
		}
		for _, c := range h.front.seen() {
			isExchange := c.path == exchange || c.path == signOut
			if isExchange && (c.status == 200 && c.method != "OPTIONS" || c.status < 400 && c.method == "POST") {
				t.Errorf("%s: got %+v, want it refused", name, c)
			}
			if strings.HasPrefix(c.path, "/clusters/") && c.status != 401 && c.status != 403 {
				t.Errorf("%s: got %+v, want the cookie to count for nothing", name, c)
			}
			if name == "another site" && slices.Contains(c.cookies, sessionCookie) {
				t.Errorf("got %+v, want a strict cookie to stay at home", c)
			}
		}
		// A window that the page opens is cut off from it.
		script[bool](t, attack, fmt.Sprintf("window.victim = window.open(%q), true", home+"/device"))
		attack.awaitThat(t, "window.victim === null || window.victim.closed")
	}
	h.atHome(t, b)
	if got := script[answer](t, b, exchangeOf("distributor")); got.Status != 200 {
		t.Errorf("got %+v, want ada to be signed in still", got)
	}
}

// TestSignOutInABrowser signs a person out of both browsers from one of them. Going back shows
// nothing of the session.
func TestSignOutInABrowser(t *testing.T) {
	t.Parallel()
	h, one, two := start(t), open(t), open(t)
	h.signIn(t, one, "ada")
	h.signIn(t, two, "ada")
	h.atHome(t, two)
	h.atHome(t, one)
	for _, b := range []*tab{one, two} {
		if got := script[answer](t, b, exchangeOf("distributor")); got.Status != 200 {
			t.Fatalf("got %+v, want a session", got)
		}
	}
	token := script[answer](t, one, exchangeOf("distributor")).Body.AccessToken
	everywhere := callOf(fleetv1connect.SessionServiceRevokeSessionProcedure, `{"person": "corp.ada"}`, "authorization: 'Bearer "+token+"'")
	if got := script[answer](t, one, everywhere); got.Status != 200 || got.Body.Revoked != 2 {
		t.Fatalf("got %+v, want two sessions to end", got)
	}
	for _, b := range []*tab{one, two} {
		if got := script[answer](t, b, exchangeOf("distributor")); got.Status != 401 || got.Body.AccessToken != "" {
			t.Errorf("got %+v, want no token after the sign-out", got)
		}
	}
	if got := script[answer](t, one, callOf(fleetv1connect.SessionServiceSignOutProcedure, "{}")); got.Status != 200 {
		t.Errorf("got %+v", got)
	}
	if left := one.cookies(t); slices.ContainsFunc(left, func(c *network.Cookie) bool { return c.Name == sessionCookie }) {
		t.Errorf("got %+v, want the cookie forgotten", left)
	}
	one.do(t, chromedp.NavigateBack())
	one.await(t, "did not begin in this browser")
	if text := one.text(); strings.Contains(text, "corp.ada") {
		t.Errorf("going back shows %q", text)
	}
}

// TestSecCookiesOfClusterHosts has the pages of one cluster's host set cookies for others. Cookies
// that they can set reach no cluster's page as its own, and none of them reaches the hub.
func TestSecCookiesOfClusterHosts(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	h.signIn(t, b, "ada")
	// The tunnel's own answers at these hosts are documents of their origins.
	berlin, shop := h.front.url("berlin."+clusterDomain), h.front.url("shop--berlin."+clusterDomain)
	b.open(t, berlin+"/version")
	set := func(cookie string) {
		t.Helper()
		script[bool](t, b, fmt.Sprintf("document.cookie = %q, true", cookie))
	}
	set("own=berlin; Secure")
	set("below=berlin; Secure; Domain=berlin." + clusterDomain)
	set("sideways=berlin; Secure; Domain=shop--berlin." + clusterDomain)
	set("up=berlin; Secure; Domain=" + clusterDomain)
	set("__Host-own=berlin; Secure; Path=/")
	set("__Host-up=berlin; Secure; Path=/; Domain=" + clusterDomain)
	set(sessionCookie + "=forged; Secure; Path=/; Domain=leat.test")
	if got := script[string](t, b, "document.cookie.split('; ').sort().join(' ')"); got != "__Host-own=berlin below=berlin own=berlin up=berlin" {
		t.Errorf("berlin's page has %q", got)
	}
	b.open(t, shop+"/version")
	if got := script[string](t, b, "document.cookie"); got != "up=berlin" {
		t.Errorf("the page of shop/berlin has %q, want only what is set for the whole domain", got)
	}
	h.front.seen()
	b.open(t, h.front.url("shop.berlin."+clusterDomain)+"/version") // a host of two labels belongs to no cluster
	h.atHome(t, b)
	if got := script[string](t, b, "document.cookie"); got != "" {
		t.Errorf("the hub's page has %q", got)
	}
	for _, c := range h.front.seen() {
		switch {
		case strings.HasSuffix(c.host, clusterDomain):
			if c.status < 400 {
				t.Errorf("got %+v, want no cluster at a host of two labels", c)
			}
		case !slices.Equal(c.cookies, []string{sessionCookie}):
			t.Errorf("got %+v, want the hub's own cookie alone", c)
		}
	}
	if got := script[answer](t, b, exchangeOf("distributor")); got.Status != 200 {
		t.Errorf("got %+v, want ada to be signed in still", got)
	}
}
