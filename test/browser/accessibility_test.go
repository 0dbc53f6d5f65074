// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// axeSum is the SHA-256 of testdata/axe-core/axe.min.js: axe-core 4.10.3, unchanged.
const axeSum = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"

// minContrast is the contrast of all text, also where WCAG asks for 3 only.
const minContrast = 4.5

// look is how a person sees a page.
type look struct {
	name, scheme string
	// width is in CSS pixels, and scale in pixels of the screen for each of them: zoom makes a page
	// narrower by as much as it makes it larger.
	width int64
	scale float64
	// text is how much larger than usual text alone is.
	text string
}

func looks() []look {
	var all []look
	for _, scheme := range []string{"light", "dark"} {
		all = append(all,
			look{"a screen", scheme, 1280, 1, "100%"}, look{"320 pixels", scheme, 320, 1, "100%"},
			look{"zoom of 200 %", scheme, 640, 2, "100%"}, look{"text of 200 %", scheme, 320, 1, "200%"},
		)
	}
	return all
}

// checks are the results of axe-core in a page, and what it cannot know.
type checks struct {
	// Violations are rules that the page breaks, or that axe-core cannot decide about, with the elements.
	Violations []string
	// Rules is how many rules the page keeps, Texts on how many elements contrast was measured, and
	// Contrast is the lowest of them.
	Rules, Texts int
	Contrast     float64
	// Overflow is by how many pixels the page is wider than its window.
	Overflow int
	// Background and Scheme belong to the page.
	Background, Scheme string
}

// run lets axe-core check the page. Every rule counts, including rules of good practice.
const runAxe = `axe.run(document, {resultTypes: ['violations', 'incomplete', 'passes']}).then(r => {
	const named = list => list.flatMap(v => v.nodes.map(n => v.id + ': ' + v.help + ': ' + n.html + ' ' + (n.failureSummary || '')));
	const texts = r.passes.filter(p => p.id === 'color-contrast').flatMap(p => p.nodes).map(n => n.any[0].data.contrastRatio);
	return {
		Violations: named(r.violations).concat(named(r.incomplete)), Rules: r.passes.length, Texts: texts.length,
		Contrast: Math.min(99, ...texts), Overflow: document.documentElement.scrollWidth - window.innerWidth,
		Background: getComputedStyle(document.documentElement).backgroundColor,
		Scheme: matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light',
	};
})`

// axe returns the source of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("testdata/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("axe.min.js has the sum %x, want %s", sum, axeSum)
	}
	return string(source)
}

// show shows the page as a person with that look sees it.
func (b *tab) show(t *testing.T, l look) {
	t.Helper()
	b.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
		}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.width, Height: 800, DeviceScaleFactor: l.scale,
		})
		return err
	}))
	script[string](t, b, "document.documentElement.style.fontSize = '"+l.text+"'")
}

// checkAccess lets axe-core check the page in every look.
func (b *tab) checkAccess(t *testing.T, source, page string) {
	t.Helper()
	script[bool](t, b, source+"; true") // not by the page, whose policy allows no script
	backgrounds := map[string]string{}
	for _, l := range looks() {
		b.show(t, l)
		got := script[checks](t, b, runAxe)
		what := page + " with " + l.name + ", " + l.scheme
		if len(got.Violations) > 0 {
			t.Errorf("%s:\n%s", what, strings.Join(got.Violations, "\n"))
		}
		if got.Rules < 10 || got.Texts == 0 || got.Scheme != l.scheme {
			t.Errorf("%s: axe-core checked %d rules and %d texts in %s, which is too little", what, got.Rules, got.Texts, got.Scheme)
		}
		if got.Contrast < minContrast {
			t.Errorf("%s: got contrast %.2f, want at least %.1f", what, got.Contrast, minContrast)
		}
		if got.Overflow > 0 {
			t.Errorf("%s: the page is %d pixels wider than its window", what, got.Overflow)
		}
		backgrounds[l.scheme] = got.Background
	}
	if backgrounds["light"] == backgrounds["dark"] {
		t.Errorf("%s: got the background %s in light and dark", page, backgrounds["light"])
	}
	b.show(t, looks()[0])
}

// TestPagesAreAccessible opens each of the hub's pages and has axe-core check it: in light and dark, on
// a screen of 320 pixels, with a zoom of 200 %, and with text twice as large.
func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	h, b, source := start(t), open(t), axe(t)
	device, err := h.sessions.StartDeviceSignIn(t.Context(), &fleetv1.StartDeviceSignInRequest{})
	if err != nil {
		t.Fatal(err)
	}
	b.open(t, device.GetVerificationUrl())
	b.await(t, "Type the code")
	b.checkAccess(t, source, "the form for a code")
	script[bool](t, b, "document.querySelector('[name=code]').focus(); true")
	b.press(t, "AEIOU")
	b.press(t, kb.Enter)
	b.await(t, "That is not a code")
	b.checkAccess(t, source, "the form after a wrong code")
	b.typeCode(t, device.GetUserCode())
	b.await(t, "Sign in the machine that shows")
	b.checkAccess(t, source, "the question before a sign-in")
	b.press(t, kb.Tab)
	b.press(t, kb.Enter)
	b.typeAtProvider(t, "ada")
	b.await(t, "You are signed in as corp.ada")
	b.checkAccess(t, source, "the end of a sign-in")
	b.open(t, h.front.url(hubName)+"/login?return=https://"+evilName+"/")
	b.await(t, "Begin again")
	b.checkAccess(t, source, "a refusal")

	if _, err := h.fleet.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{{
		Object: &fleetv1.Document_IdentityProvider{IdentityProvider: &fleetv1.IdentityProvider{
			Metadata: &typev1.Metadata{Name: "partners"},
			Spec: &fleetv1.IdentityProviderSpec{
				Title: "the identity provider of a partner with a long name", Issuer: "https://login.partner.example", ClientId: "leat", ClientSecret: new(clientSecret),
			},
		}},
	}}}); err != nil {
		t.Fatal(err)
	}
	b.open(t, h.front.url(hubName)+"/login")
	b.await(t, "Sign in with corp")
	b.checkAccess(t, source, "the choice of a provider")
}
