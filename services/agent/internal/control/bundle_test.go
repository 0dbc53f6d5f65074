// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func TestSecondVersionTravelsAsDelta(t *testing.T) {
	t.Parallel()
	content := noise(1, 100_000)
	first, second, third := pack(t, content), pack(t, content+"!"), pack(t, content+"!?")
	h, dir := newBundleHub(t, first, second, third), t.TempDir()
	c := openClient(t, h, dir)
	c.want(t, first, none)
	wantRequests(t, h, "")
	c.want(t, second, first.digest)
	if got := wantRequests(t, h, first.digest.String()); got[0].sent > 1000 {
		t.Errorf("delta: got %d bytes, want a few", got[0].sent)
	}
	c.want(t, second, first.digest) // from disk
	wantRequests(t, h)
	c = openClient(t, h, dir, func(d *casdisk.Config, _ *control.BundleParams) { _ = c.store.Close() })
	c.want(t, third, second.digest) // what was rebuilt is as good as what was downloaded
	wantRequests(t, h, second.digest.String())
	wantNoPartials(t, dir)
}

func TestFallsBackToTheWholeBundle(t *testing.T) {
	t.Parallel()
	content := noise(1, 100_000)
	first, second, other := pack(t, content), pack(t, content+"!"), pack(t, "other")
	for name, test := range map[string]struct {
		spoil func(t *testing.T, h *bundleHub, c *client, dir string)
		from  []string
	}{
		"hub without deltas": {func(_ *testing.T, h *bundleHub, _ *client, _ string) { h.deltas = false }, []string{first.digest.String()}},
		"base gone": {func(t *testing.T, _ *bundleHub, c *client, _ string) {
			if err := c.store.Delete(t.Context(), first.digest); err != nil {
				t.Fatal(err)
			}
		}, []string{""}},
		"base lost behind our back": {func(t *testing.T, _ *bundleHub, _ *client, dir string) {
			if err := os.Remove(file(t, dir, first.digest)); err != nil {
				t.Fatal(err)
			}
		}, []string{first.digest.String(), ""}},
		"base damaged": {func(t *testing.T, _ *bundleHub, _ *client, dir string) { damage(t, dir, first.digest) }, []string{first.digest.String(), ""}},
		"delta is garbage": {func(_ *testing.T, h *bundleHub, _ *client, _ string) {
			h.delta = func([]byte) []byte { return []byte("garbage") }
		}, []string{first.digest.String(), ""}},
		"delta is cut short": {func(_ *testing.T, h *bundleHub, _ *client, _ string) {
			h.delta = func(d []byte) []byte { return d[:len(d)-5] }
		}, []string{first.digest.String(), ""}},
		"delta is empty": {func(_ *testing.T, h *bundleHub, _ *client, _ string) { h.delta = func([]byte) []byte { return nil } }, []string{first.digest.String(), ""}},
		"delta leads elsewhere": {func(_ *testing.T, h *bundleHub, _ *client, _ string) {
			h.delta = func([]byte) []byte {
				h.delta = nil
				return h.difference(first, other)
			}
		}, []string{first.digest.String(), ""}},
		"delta is the bundle": {func(_ *testing.T, h *bundleHub, _ *client, _ string) {
			h.delta = func([]byte) []byte { return second.stored }
		}, []string{first.digest.String(), ""}},
		"delta of another base": {func(_ *testing.T, h *bundleHub, _ *client, _ string) {
			h.delta = func([]byte) []byte {
				h.delta = nil
				return h.difference(other, second)
			}
		}, []string{first.digest.String(), ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, dir := newBundleHub(t, first, second, other), t.TempDir()
			c := openClient(t, h, dir, once)
			c.want(t, first, none)
			h.take()
			h.change(func() { test.spoil(t, h, c, dir) })
			c.want(t, second, first.digest)
			wantRequests(t, h, test.from...)
			wantNoPartials(t, dir)
			h.change(func() { h.delta = nil })
			c.want(t, first, none) // whatever was wrong with it
		})
	}
}

func TestZstdAsEncoding(t *testing.T) {
	t.Parallel()
	b := pack(t, noise(1, 100_000))
	h := newBundleHub(t, b)
	h.change(func() { h.encoding = true })
	openClient(t, h, t.TempDir(), once).want(t, b, none)
}

// TestResume breaks connections, during one life of the agent and between two.
func TestResume(t *testing.T) {
	t.Parallel()
	first := pack(t, noise(1, 100_000))
	second := pack(t, noise(1, 100_000)+noise(2, 50_000))
	size := len(first.stored)
	h, dir := newBundleHub(t, first, second), t.TempDir()

	h.change(func() { h.cut = []int{30_000, 40_000} })
	c := openClient(t, h, dir)
	c.want(t, first, none)
	requests := wantRequests(t, h, "", "", "")
	for i, want := range []string{"", "bytes=30000-", "bytes=70000-"} {
		if got := requests[i].ranges; got != want || (requests[i].ifRange == "") != (want == "") {
			t.Errorf("request %d: got %+v, want range %q and If-Range with it", i, requests[i], want)
		}
	}
	if total := requests[0].sent + requests[1].sent + requests[2].sent; total != size {
		t.Errorf("sent: got %d bytes in all, want the bundle's %d, none twice", total, size)
	}

	// The next process resumes a delta.
	h.change(func() { h.cut = []int{10_000} })
	c = openClient(t, h, dir, once, func(*casdisk.Config, *control.BundleParams) { _ = c.store.Close() })
	if _, err := c.open(t.Context(), second.digest, first.digest); err == nil {
		t.Fatal("got no error for a download that broke off")
	}
	c = openClient(t, h, dir, once, func(*casdisk.Config, *control.BundleParams) { _ = c.store.Close() })
	c.want(t, second, none) // the existing part names the base of the delta
	requests = wantRequests(t, h, first.digest.String(), first.digest.String())
	if requests[1].ranges != "bytes=10000-" || requests[0].sent+requests[1].sent > 51_000 {
		t.Errorf("requests: got %+v, want the second to go on where the first ended", requests)
	}
	wantNoPartials(t, dir)
}

// TestWhoseFaultADownloadIs tells errors that pass when the hub does from those that need a person, or another plan.
func TestWhoseFaultADownloadIs(t *testing.T) {
	t.Parallel()
	refused := func(code connect.Code, why errorsv1.Reason, options ...rpcerr.Option) func(*bundleHub, *casdisk.Config) {
		return func(h *bundleHub, _ *casdisk.Config) { h.refusal = rpcerr.New(code, why, "no", options...) }
	}
	for name, test := range map[string]struct {
		spoil  func(h *bundleHub, disk *casdisk.Config)
		isHubs bool
	}{
		"no hub":      {func(h *bundleHub, _ *casdisk.Config) { h.Close() }, true},
		"broken off":  {func(h *bundleHub, _ *casdisk.Config) { h.cut = []int{10, 10, 10, 10} }, true},
		"unavailable": {refused(connect.CodeUnavailable, errorsv1.Reason_REASON_HUB_TOKEN_REFUSED), true},
		"unavailable for a while": {
			refused(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE, rpcerr.RetryAfter(time.Millisecond)), true,
		},
		"a defect":     {refused(connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL), true},
		"full disk":    {refused(connect.CodeResourceExhausted, errorsv1.Reason_REASON_STORAGE_FULL), true},
		"not planned":  {refused(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND), false},
		"no access":    {refused(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED), false},
		"wrong bytes":  {func(h *bundleHub, _ *casdisk.Config) { h.damaged = true }, false},
		"our own disk": {func(_ *bundleHub, disk *casdisk.Config) { disk.MaxBytes = 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := pack(t, noise(1, 1000))
			h := newBundleHub(t, b)
			c := openClient(t, h, t.TempDir(), func(disk *casdisk.Config, _ *control.BundleParams) { test.spoil(h, disk) })
			if _, err := c.open(t.Context(), b.digest, none); err == nil || errors.Is(err, manifest.ErrUnanswered) != test.isHubs {
				t.Errorf("got %v, want an error that is the hub's: %t", err, test.isHubs)
			}
		})
	}
}

// TestResumeAfterTheLastByte ends the process between the last byte and the store.
func TestResumeAfterTheLastByte(t *testing.T) {
	t.Parallel()
	b := pack(t, noise(1, 100_000))
	h, dir := newBundleHub(t, b), t.TempDir()
	h.change(func() { h.cut = []int{len(b.stored)} })
	c := openClient(t, h, dir, once)
	_, _ = c.open(t.Context(), b.digest, none)
	h.take()
	c.want(t, b, none)
	for _, r := range h.take() {
		if r.sent > 100 {
			t.Errorf("got %+v, want no byte of the bundle again", r)
		}
	}
}

// TestRepresentationsAreNotMixed interrupts a download, and resumes it from a hub that has other
// bytes for the same digest.
func TestRepresentationsAreNotMixed(t *testing.T) {
	t.Parallel()
	first, second := pack(t, noise(1, 100_000)), pack(t, noise(1, 100_000)+noise(2, 50_000))
	for name, change := range map[string]func(h *bundleHub, c *client){
		"another tag": func(h *bundleHub, _ *client) { h.tag = "-2" },
		"no deltas":   func(h *bundleHub, _ *client) { h.deltas = false },
		"no base":     func(_ *bundleHub, c *client) { _ = c.store.Delete(t.Context(), first.digest) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, dir := newBundleHub(t, first, second), t.TempDir()
			c := openClient(t, h, dir, once)
			c.want(t, first, none)
			h.change(func() { h.cut = []int{10_000} })
			if _, err := c.open(t.Context(), second.digest, first.digest); err == nil {
				t.Fatal("got no error for a download that broke off")
			}
			h.change(func() { change(h, c) })
			h.take()
			c.want(t, second, first.digest)
			requests := h.take()
			if len(requests) != 1 || requests[0].sent < 50_000 {
				t.Errorf("requests: got %+v, want one that brings everything", requests)
			}
		})
	}
}

// TestPartialsOfOthers has files in the folder that no download of this version wrote.
func TestPartialsOfOthers(t *testing.T) {
	t.Parallel()
	b := pack(t, noise(1, 10_000))
	for _, content := range []string{"", "\n", "{}\nabc", "{\"tag\":", string(b.stored[:500]), strings.Repeat("x", 10_000)} {
		h, dir := newBundleHub(t, b), t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "partial", b.digest.Hex()), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		openClient(t, h, dir, once).want(t, b, none)
		if got := wantRequests(t, h, ""); got[0].ranges != "" {
			t.Errorf("partial %.10q: got %+v, want the whole bundle", content, got)
		}
	}
}

// TestRefreshLooksAtTheDisk damages stored bytes: the next check finds that, and the bundle is
// downloaded again.
func TestRefreshLooksAtTheDisk(t *testing.T) {
	t.Parallel()
	b := pack(t, noise(1, 10_000))
	h, dir := newBundleHub(t, b), t.TempDir()
	c := openClient(t, h, dir, once, func(_ *casdisk.Config, p *control.BundleParams) { p.Recheck = time.Nanosecond })
	c.want(t, b, none)
	c.want(t, b, none)
	wantRequests(t, h, "")
	damage(t, dir, b.digest)
	c.want(t, b, none)
	wantRequests(t, h, "")
	damage(t, dir, b.digest)
	h.Close()
	if got, err := c.open(t.Context(), b.digest, none); err == nil {
		t.Errorf("damaged and no hub: got %d bytes, want an error", len(got))
	}
}

// TestOfflineStart starts an agent without its hub, and opens every bundle that it had.
func TestOfflineStart(t *testing.T) {
	t.Parallel()
	var all []packed
	for n := range 10 {
		all = append(all, pack(t, noise(1, 10_000)+fmt.Sprint(n)))
	}
	h, dir := newBundleHub(t, all...), t.TempDir()
	c := openClient(t, h, dir)
	for i, b := range all {
		c.want(t, b, all[max(i-1, 0)].digest)
	}
	h.Close()
	c = openClient(t, h, dir, once, func(*casdisk.Config, *control.BundleParams) { _ = c.store.Close() })
	for _, b := range all {
		c.want(t, b, none)
	}
}

type reporter struct{ reports, forgotten int }

func (r *reporter) Report(report.Status) { r.reports++ }
func (r *reporter) Forget(string)        { r.forgotten++ }
func (r *reporter) Adopted(string)       {}

func statusOf(service string, bundles ...packed) report.Status {
	s := report.Status{Service: service}
	for _, b := range bundles {
		s.Applied.Digests = append(s.Applied.Digests, b.digest.String())
	}
	return s
}

// TestLastGoodStaysOnDisk fills a store that has room for two and a half bundles.
func TestLastGoodStaysOnDisk(t *testing.T) {
	t.Parallel()
	a, b, x, y := pack(t, noise(1, 10_000)), pack(t, noise(2, 10_000)), pack(t, noise(3, 10_000)), pack(t, noise(4, 10_000))
	h, dir := newBundleHub(t, a, b, x, y), t.TempDir()
	heard := &reporter{}
	lastGood := control.NewLastGood(heard)
	var plan sync.Map
	const room = 26_000
	c := openClient(t, h, dir, once, func(d *casdisk.Config, p *control.BundleParams) {
		d.MaxBytes, p.Yield = room, lastGood.Yield
		d.Pinned = func(d digest.Digest) bool {
			_, ok := plan.Load(d)
			return ok || lastGood.Pinned(d)
		}
	})
	lastGood.Report(report.Status{Service: "one", Applied: inventory.Applied{Digests: []string{a.digest.String(), "nonsense"}}})
	for _, one := range []packed{a, b, x, y, b, x} { // the others come and go
		c.want(t, one, none)
		if usage, err := c.store.Usage(t.Context()); err != nil || usage.Bytes > room {
			t.Errorf("usage: got %+v, %v, want at most %d bytes", usage, err, room)
		}
	}
	if _, err := c.store.Stat(t.Context(), a.digest); err != nil {
		t.Errorf("last good bundle: got %v, want it on disk", err)
	}
	// Bundles of the plan take precedence over formerly applied ones.
	plan.Store(b.digest, true)
	plan.Store(y.digest, true)
	c.want(t, b, none)
	c.want(t, y, none)
	if _, err := c.store.Stat(t.Context(), a.digest); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("last good bundle: got %v, want it to have made room", err)
	}

	lastGood.Report(statusOf("one", a, b))
	lastGood.Report(statusOf("two", b))
	lastGood.Report(statusOf("one", x))
	lastGood.Forget("one")
	if lastGood.Pinned(a.digest) || lastGood.Pinned(x.digest) || !lastGood.Pinned(b.digest) {
		t.Error("pins: want that of service two and no other")
	}
	if heard.reports != 4 || heard.forgotten != 1 {
		t.Errorf("passed on: got %+v, want 4 reports and 1 that was forgotten", heard)
	}
}
