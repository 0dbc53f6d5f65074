// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"fmt"
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/testkit/await"
)

// signInOf returns a script that redeems a code in a page.
func signInOf(code string) string {
	return callOf(fleetv1connect.SessionServiceSignInProcedure, fmt.Sprintf(`{"code": %q}`, code))
}

// TestSecUIInABrowser opens the web UI as the distributor serves it, and signs a user of the hub in
// there. The policy of the page blocks nothing that the page does, and everything that an injected
// script would do first.
func TestSecUIInABrowser(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	info, err := h.fleet.GetServerInfo(await.Context(t), &fleetv1.GetServerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.GetUiUrl() == "" {
		t.Fatal("the distributor embeds no web UI: run make ui")
	}
	b.open(t, info.GetUiUrl())
	b.awaitThat(t, "document.readyState === 'complete' && document.getElementById('app')?.childElementCount > 0")
	if title := script[string](t, b, "document.title"); !strings.Contains(title, "Leat") {
		t.Errorf("got the title %q", title)
	}
	refuseViolations(t, b)

	code, err := h.sessions.CreateSignInCode(await.Context(t), &fleetv1.CreateSignInCodeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	b.open(t, "about:blank") // another fragment alone loads no page
	b.open(t, info.GetUiUrl()+"sign-in#code="+code.GetCode())
	b.await(t, "admin")
	if hash := script[string](t, b, "location.hash"); hash != "" {
		t.Errorf("the address keeps %q", hash)
	}
	got := script[answer](t, b, exchangeOf("tunnel"))
	if got.Status != 200 || got.Body.AccessToken == "" {
		t.Fatalf("got %+v, want an access token by the cookie", got)
	}
	cookies := b.cookies(t)
	if len(cookies) != 1 || cookies[0].Name != sessionCookie || !cookies[0].HTTPOnly || !cookies[0].Secure {
		t.Fatalf("got %+v, want the session alone", cookies)
	}
	token := cookies[0].Value[strings.Index(cookies[0].Value, ".")+1:]
	kept := script[string](t, b, "JSON.stringify([document.cookie, location.href, Object.entries(localStorage), Object.entries(sessionStorage), document.documentElement.outerHTML])")
	for _, secret := range []string{token, got.Body.AccessToken, code.GetCode()} {
		if strings.Contains(kept, secret) {
			t.Errorf("a script of the page finds a secret in %s", kept)
		}
	}
	refuseViolations(t, b)

	// A script that somebody brings into the page is stopped before it runs.
	ran := script[bool](t, b, `new Promise(done => {
		window.ran = false;
		const inline = document.createElement('script');
		try { inline.textContent = 'window.ran = true'; document.head.append(inline) } catch {}
		try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran = true">') } catch {}
		fetch('https://evil.test/').catch(() => {}).finally(() => done(window.ran)) })`)
	if ran {
		t.Error("an injected script runs")
	}
	b.complained()

	second := open(t)
	second.open(t, info.GetUiUrl())
	if got := script[answer](t, second, signInOf(code.GetCode())); got.Status != 401 {
		t.Errorf("a second use of the code: got %d, want 401", got.Status)
	}
	if got := script[answer](t, b, exchangeOf("tunnel")); got.Status != 401 {
		t.Errorf("got %d, want the sign-in of a code that was used twice to have ended", got.Status)
	}
}

// refuseViolations fails if the policy of a page has blocked something.
func refuseViolations(t *testing.T, b *tab) {
	t.Helper()
	for _, complaint := range b.complained() {
		for _, word := range []string{"Content Security Policy", "ContentSecurityPolicy", "TrustedType", "Trusted Type", "exception"} {
			if strings.Contains(complaint, word) {
				t.Errorf("the browser complains: %s", complaint)
			}
		}
	}
}
