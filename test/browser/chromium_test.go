// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser signs people in with a real Chromium, as they do it: by the keyboard, at a real
// OpenID provider, from a command line, a device, and the hub's own pages. Pages of other origins in
// the same browser attack the session.
package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/leatdev/leat/internal/testkit/await"
)

// chromium is the one browser of all tests. Each test has a profile of its own in it.
var chromium struct {
	sync.Mutex
	started *browser
}

// browser is a Chromium that runs.
type browser struct {
	ctx  context.Context
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.started != nil {
		chromium.started.stop()
	}
	os.Exit(code)
}

// executable returns the path of an installed Chromium.
func executable() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("chromium is not installed: run `make browser` or `apt-get install chromium`")
}

// startChromium starts the browser without a window. It resolves names below .test to this machine,
// and no others, so that it reaches nothing else.
func startChromium() (*browser, error) {
	path, err := executable()
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "leat-browser-")
	if err != nil {
		return nil, err
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(home), chromedp.Env("HOME=" + home), chromedp.WSURLReadTimeout(await.Patience),
		// Containers seldom allow the sandbox of Chromium, and all pages are the test's own.
		chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	})...)
	ctx, cancel := chromedp.NewContext(allocator)
	stop := func() {
		_ = chromedp.Cancel(ctx) // ends the process
		cancel()
		end()
		_ = os.RemoveAll(home)
	}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return &browser{ctx: ctx, stop: stop}, nil
}

// tab is a page of a profile, with what the browser complains about.
type tab struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// open opens a tab in a new profile, which has no cookies.
func open(t *testing.T) *tab {
	t.Helper()
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.started == nil {
		started, err := startChromium()
		if err != nil {
			t.Fatal(err)
		}
		chromium.started = started
	}
	return newTab(t, chromium.started.ctx, chromedp.WithNewBrowserContext())
}

// another opens a second tab in the same profile.
func (b *tab) another(t *testing.T) *tab {
	t.Helper()
	return newTab(t, b.ctx)
}

func newTab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	b := &tab{}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(b.hear))...)
	t.Cleanup(cancel)
	b.ctx = ctx
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, audits.Enable, cdp.Empty{})
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hear collects errors of the console, exceptions, and what the Content-Security-Policy blocked.
func (b *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		isIcon := strings.HasSuffix(e.Entry.URL, "/favicon.ico") // which no page here names
		if !isIcon && (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) {
			text = fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Text
	case *audits.EventIssueAdded:
		// A sign-in leads through the provider and back, which browsers note as bounces.
		if e.Issue.Code != audits.InspectorIssueCodeBounceTrackingIssue {
			text = "issue: " + string(e.Issue.Code)
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, text)
	}
}

// complained returns the complaints since the last call.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.complaints
	b.complaints = nil
	return all
}

// do runs steps.
func (b *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatalf("%v; the browser is at %s:\n%s", err, b.where(), b.text())
	}
}

// value runs an action that returns something.
func value[T any](t *testing.T, b *tab, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatalf("%v; the browser is at %s:\n%s", err, b.where(), b.text())
	}
	return v
}

// script evaluates JavaScript in the page, and returns what its promise resolves to.
func script[T any](t *testing.T, b *tab, text string) T {
	t.Helper()
	return value(t, b, chromedp.Evaluate[T](text, chromedp.EvalAwaitPromise))
}

func (b *tab) open(t *testing.T, address string) {
	t.Helper()
	b.do(t, chromedp.Navigate(address))
}

// press types keys, as a person without a mouse does.
func (b *tab) press(t *testing.T, keys string) {
	t.Helper()
	b.do(t, chromedp.KeyEvent(keys))
}

// await waits until the page shows a text.
func (b *tab) await(t *testing.T, text string) {
	t.Helper()
	b.awaitThat(t, fmt.Sprintf("document.readyState === 'complete' && document.body !== null && document.body.innerText.includes(%q)", text))
}

// awaitThat waits until an expression is true in the page.
func (b *tab) awaitThat(t *testing.T, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		isTrue, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)) // fails while a page follows another
		if err == nil && isTrue {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s; the browser is at %s:\n%s\n%v", expression, b.where(), b.text(), err)
		}
	}
}

// where returns the address of the page, for messages.
func (b *tab) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, await.Patience)
	defer cancel()
	at, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return at
}

// text returns what the page shows.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, await.Patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(text)
}
