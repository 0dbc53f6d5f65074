// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

// ownTime is a script that holds the long timers of a page back, of which the renewal of its access token is the only
// one. fire(round) runs them in every tab at the same time, except in one whose timer has been replaced in that round,
// and planned counts them.
const ownTime = `(() => {
	const set = window.setTimeout;
	let due = () => {};
	window.planned = 0;
	window.setTimeout = (run, after, ...rest) => {
		if (!(after > 60000)) return set(run, after, ...rest);
		window.planned++;
		due = run;
		return 0;
	};
	const here = round => {
		if (planned - window.start < round) due();
	};
	const tabs = new BroadcastChannel('the test');
	tabs.onmessage = event => here(event.data);
	window.fire = round => { tabs.postMessage(round); here(round) };
})()`

// holdTime lets the test decide in a tab when access tokens are renewed.
func (b *tab) holdTime(t *testing.T) {
	t.Helper()
	b.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: ownTime})
		return err
	}))
}

// exchanges returns how many access tokens the browsers have asked for since the last time.
func (f *front) exchanges() int {
	count := 0
	for _, c := range f.seen() {
		if c.path == fleetv1connect.SessionServiceCreateAccessTokenProcedure {
			count++
		}
	}
	return count
}

// TestSecTabsInABrowser opens the web UI in two tabs. One of them renews the access token for both, and a
// sign-out in one of them reaches the other at once. A page of another origin hears nothing of it.
func TestSecTabsInABrowser(t *testing.T) {
	t.Parallel()
	h, first := start(t), open(t)
	second := first.another(t)
	first.holdTime(t)
	second.holdTime(t)
	first.open(t, h.front.url(hubName)+"/ui/")
	typeToken(t, first, adminToken)
	first.awaitThat(t, account+" !== null")
	h.front.exchanges()
	second.open(t, h.front.url(hubName)+"/ui/services")
	second.awaitThat(t, account+" !== null")
	if got := h.front.exchanges(); got != 1 {
		t.Errorf("a second tab asked for %d tokens, want one", got)
	}

	h.front.show(evilName, "/listen", "<!doctype html><title>listen</title><p>listen</p>")
	evil := first.another(t)
	evil.open(t, h.front.url(evilName)+"/listen")
	script[bool](t, evil, `(window.heard = 0, window.ears = new BroadcastChannel('leat.token'), ears.onmessage = () => heard++, true)`)

	const rounds = 5
	planned := map[*tab]int{first: script[int](t, first, "window.start = planned"), second: script[int](t, second, "window.start = planned")}
	for round := 1; round <= rounds; round++ {
		script[bool](t, first, fmt.Sprintf("(fire(%d), true)", round))
		for b, before := range planned {
			b.awaitThat(t, fmt.Sprintf("planned === %d", before+round))
		}
	}
	if got := h.front.exchanges(); got != rounds {
		t.Errorf("two tabs asked for %d tokens in %d renewals", got, rounds)
	}
	refuseViolations(t, first)
	refuseViolations(t, second)

	script[bool](t, first, "("+account+".focus(), true)")
	first.press(t, kb.ArrowUp)
	first.awaitThat(t, "document.activeElement?.getAttribute('role') === 'menuitem' && document.activeElement.innerText.includes('Sign out')")
	first.press(t, kb.Enter)
	first.awaitThat(t, tokenField+" !== null")
	second.awaitThat(t, tokenField+" !== null && "+account+" === null")
	second.await(t, "Your session has ended.")
	for _, c := range h.front.seen() {
		if c.path == fleetv1connect.SessionServiceCreateAccessTokenProcedure || c.status == 401 {
			t.Errorf("got %+v, want both tabs to be signed out without asking the hub", c)
		}
	}

	// A sign-in in one tab signs the other in, too.
	typeToken(t, first, adminToken)
	first.awaitThat(t, account+" !== null")
	second.awaitThat(t, account+" !== null")
	if heard := script[int](t, evil, "heard"); heard != 0 {
		t.Errorf("a page of another origin heard %d words", heard)
	}
}
