// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/testkit/await"
)

const (
	tokenField = "document.getElementById('token')"
	// account is the button of the menu that ends a sign-in. It names the person.
	account = `document.querySelector('button[aria-label="Signed in as admin"]')`
)

// typeToken types an API token into the field of the page that signs people in.
func typeToken(t *testing.T, b *tab, token string) {
	t.Helper()
	b.awaitThat(t, tokenField+" !== null")
	script[bool](t, b, "("+tokenField+".focus(), true)")
	b.press(t, token)
	b.press(t, kb.Enter)
}

// TestSecTokenInABrowser signs a user of the hub in by an API token in the field of the page. The page
// trades it for the browser's own token, and nothing in the browser keeps it.
func TestSecTokenInABrowser(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	b.open(t, h.front.url(hubName)+"/ui/")
	typeToken(t, b, "leat_guessed")
	b.awaitThat(t, tokenField+".getAttribute('aria-invalid') === 'true'")
	if cookies := b.cookies(t); len(cookies) > 0 {
		t.Errorf("got %+v for a token that the hub does not know", cookies)
	}
	b.complained() // about the answer of 401

	h.front.seen()
	script[bool](t, b, "("+tokenField+".select(), true)")
	typeToken(t, b, adminToken)
	b.awaitThat(t, account+" !== null")
	refuseViolations(t, b)
	trades := 0
	await.True(t, "the page to sign in", func() bool {
		for _, c := range h.front.seen() {
			if c.path == fleetv1connect.SessionServiceSignInProcedure && c.status == 200 {
				trades++
			}
		}
		return trades > 0
	})
	if trades != 1 {
		t.Errorf("the page signed in %d times, want once", trades)
	}
	cookies := b.cookies(t)
	if len(cookies) != 1 || cookies[0].Name != sessionCookie || !cookies[0].HTTPOnly || strings.Contains(cookies[0].Value, adminToken) {
		t.Fatalf("got %+v, want a token of the browser's own", cookies)
	}
	kept := script[string](t, b, "JSON.stringify([document.cookie, location.href, history.state, Object.entries(localStorage), Object.entries(sessionStorage), document.documentElement.outerHTML])")
	if strings.Contains(kept, adminToken) {
		t.Errorf("the page keeps the API token in %s", kept)
	}
	b.do(t, chromedp.Reload())
	b.awaitThat(t, account+" !== null")
}

// TestSecSignOutInABrowser signs out by the menu of the page. The browser forgets the cookie and what
// pages of the hub stored, and a reload, or another tab, does not sign in again.
func TestSecSignOutInABrowser(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	b.open(t, h.front.url(hubName)+"/ui/")
	typeToken(t, b, adminToken)
	b.awaitThat(t, account+" !== null")
	script[bool](t, b, "(localStorage.setItem('stored', 'by a page'), true)")

	script[bool](t, b, "("+account+".focus(), true)")
	b.press(t, kb.ArrowUp) // opens the menu at its last entry
	b.awaitThat(t, "document.activeElement?.getAttribute('role') === 'menuitem' && document.activeElement.innerText.includes('Sign out')")
	b.press(t, kb.Enter)
	b.awaitThat(t, tokenField+" !== null && "+account+" === null")
	await.True(t, "the cookie to be gone", func() bool { return len(b.cookies(t)) == 0 })
	b.awaitThat(t, "localStorage.getItem('stored') === null")
	refuseViolations(t, b)

	b.do(t, chromedp.Reload())
	second := b.another(t)
	second.open(t, h.front.url(hubName)+"/ui/")
	for name, page := range map[string]*tab{"the reloaded page": b, "another tab": second} {
		page.awaitThat(t, tokenField+" !== null")
		if got := script[answer](t, page, exchangeOf("distributor")); got.Status == 200 || got.Body.AccessToken != "" {
			t.Errorf("%s: got %+v, want no token", name, got)
		}
		if script[bool](t, page, account+" !== null") {
			t.Errorf("%s is signed in", name)
		}
		if cookies := page.cookies(t); len(cookies) > 0 {
			t.Errorf("%s: got %+v, want no cookie", name, cookies)
		}
	}
}
