// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pushing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/commitpack"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/forge"
	"github.com/leatdev/leat/services/gitcache/internal/history"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pushing"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

const (
	user     = "leat"
	password = "canary-2342"
)

// bench is a repository with the parts that push to it. Its mirror is a copy, so that it may be
// behind.
type bench struct {
	server  *gittest.Server
	repo    *gittest.Repo
	mirror  string
	head    string // of main in the mirror
	def     mirror.Definition
	guard   func() error
	isOwner bool
	pusher  *pushing.Pusher
	metrics *sdkmetric.ManualReader
}

func newBench(t *testing.T, timeout time.Duration) *bench {
	t.Helper()
	b := &bench{
		server: gittest.New(t, gittest.WithBasicAuth(user, password)), mirror: filepath.Join(t.TempDir(), "mirror"),
		guard: func() error { return nil }, isOwner: true, metrics: sdkmetric.NewManualReader(),
	}
	b.repo = b.server.Repo(t, "demo")
	b.repo.Commit(t, "main", map[string]string{"apps/web.yaml": "image: web:1\n", "README.md": "demo\n"})
	b.def = mirror.Definition{Name: "demo", UID: "uid", Definition: upstream.Definition{
		URL:        b.repo.URL(),
		Credential: upstream.Credential{Method: upstream.MethodBasic, Username: user, Password: password, AllowPlainHTTP: true},
		Push:       upstream.Push{Branches: upstream.NewList([]string{"main", "leat/*"}), Forge: upstream.ForgeGitea},
	}}
	b.fetch(t)
	client := uploadpack.New(uploadpack.Config{Dir: t.TempDir(), Guard: dialguard.Guard{AllowLocal: true}})
	pusher, err := pushing.New(pushing.Params{
		Upstreams: client, Forges: forge.New(client), Mirrors: b, Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.metrics)).Meter("test"), Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.pusher = pusher
	return b
}

// fetch brings the mirror to what the upstream has.
func (b *bench) fetch(t *testing.T) {
	t.Helper()
	b.mirror = filepath.Join(t.TempDir(), "mirror")
	b.repo.Git(t, "clone", "--quiet", "--mirror", b.repo.Dir(), b.mirror)
	b.repo.Git(t, "-C", b.mirror, "repack", "-adq")
	b.head = b.repo.Resolve(t, "main")
}

// Open implements content.Opener.
func (b *bench) Open(context.Context, string) (content.Reader, error) {
	return history.Open(b.mirror, history.Params{})
}

// Content implements pushing.Repository.
func (b *bench) Content() (mirror.Content, error) {
	return mirror.Content{Refs: mirror.NewRefs([]mirror.Ref{{Name: "refs/heads/main", Commit: b.head}})}, nil
}

// AsOwner implements pushing.Repository.
func (b *bench) AsOwner(ctx context.Context, run func(ctx context.Context, task mirror.OwnerTask) error) error {
	if !b.isOwner {
		return mirror.ErrNotOwner
	}
	return run(ctx, mirror.OwnerTask{Definition: b.def, Guard: b.guard})
}

// request asks for a commit on the head of the mirror's main.
func (b *bench) request(text string) pushing.Request {
	return pushing.Request{Branch: "main", Base: b.head, Files: map[string][]byte{"apps/web.yaml": []byte(text)}, Message: "Update"}
}

// counted returns the pushes by outcome, without zeros.
func (b *bench) counted(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := b.metrics.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			for _, point := range sum.DataPoints {
				if outcome, _ := point.Attributes.Value("leat.push.outcome"); ok && point.Value != 0 {
					counts[outcome.AsString()] = point.Value
				}
			}
		}
	}
	return counts
}

func (b *bench) wantCounted(t *testing.T, outcome string, n int64) {
	t.Helper()
	if got := b.counted(t); got[outcome] != n {
		t.Errorf("got the outcomes %v, want %d of %s", got, n, outcome)
	}
}

func wantReason(t *testing.T, err error, want reason.Reason) {
	t.Helper()
	if e, ok := errors.AsType[*mirror.UpstreamError](err); !ok || e.Reason != want {
		t.Errorf("got %v, want the reason %s", err, want)
	}
}

// wantUntouched asserts that main is where it was, and that the upstream was asked nothing.
func (b *bench) wantUntouched(t *testing.T, head string) {
	t.Helper()
	if got := b.repo.Resolve(t, "main"); got != head {
		t.Errorf("got main at %s, want %s", got, head)
	}
	if stats := b.repo.Stats(); stats.Pushes != 0 {
		t.Errorf("got %d pushes, want none", stats.Pushes)
	}
}

// TestTheSamePushTwice repeats a push: of a caller that has read the branch again, and of one that
// has not heard of the answer.
func TestTheSamePushTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	base := b.head
	first, err := b.pusher.Push(t.Context(), b, b.request("image: web:2\n"))
	if err != nil || !first.Pushed || first.URL != "" || first.Commit != b.repo.Resolve(t, "main") || b.repo.Resolve(t, "main~1") != base {
		t.Fatalf("got %+v (%v), want one commit more on main", first, err)
	}
	// The answer was lost, and the mirror has not fetched: the upstream itself shows that the
	// branch has moved.
	_, err = b.pusher.Push(t.Context(), b, b.request("image: web:2\n"))
	wantReason(t, err, reason.PushOutdated)
	b.fetch(t)
	b.repo.ResetStats()
	// The mirror knows, so the upstream is not asked.
	late := b.request("image: web:3\n")
	late.Base = base
	_, err = b.pusher.Push(t.Context(), b, late)
	wantReason(t, err, reason.PushOutdated)
	again, err := b.pusher.Push(t.Context(), b, b.request("image: web:2\n"))
	if err != nil || again.Pushed || again.Commit != first.Commit {
		t.Errorf("got %+v (%v), want %s without a push", again, err, first.Commit)
	}
	b.wantUntouched(t, first.Commit)
	b.wantCounted(t, "pushed", 1)
	b.wantCounted(t, "outdated", 2)
	b.wantCounted(t, "unchanged", 1)
}

// TestAPushThatIsInterrupted has the connection break in the middle of a push, and the time of one
// run out. The next one succeeds.
func TestAPushThatIsInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	base := b.head
	b.server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body) // what is not read would be answered by a reset
			panic(http.ErrAbortHandler)        // breaks the connection
		}
		return false
	})
	if got, err := b.pusher.Push(t.Context(), b, b.request("image: web:2\n")); err == nil || got != (pushing.Result{}) {
		t.Errorf("got %+v (%v), want a failure and nothing beside it", got, err)
	} else {
		wantReason(t, err, reason.UpstreamProtocol)
	}
	if got := b.repo.Resolve(t, "main"); got != base {
		t.Errorf("got main at %s, want %s", got, base)
	}
	b.wantCounted(t, "failed", 1)
	b.server.Intercept(nil)
	if got, err := b.pusher.Push(t.Context(), b, b.request("image: web:2\n")); err != nil || !got.Pushed {
		t.Errorf("got %+v (%v), want the push", got, err)
	}

	slow := newBench(t, time.Nanosecond)
	_, err := slow.pusher.Push(t.Context(), slow, slow.request("image: web:2\n"))
	wantReason(t, err, reason.UpstreamUnreachable)
	if err != nil && !strings.Contains(err.Error(), "within 1ns; push again") {
		t.Errorf("got %v, want the time that the upstream had", err)
	}
	left, leave := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has left")
	leave(gone)
	if _, err := slow.pusher.Push(left, slow, slow.request("image: web:2\n")); !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the caller has left", err)
	}
	slow.wantUntouched(t, slow.head)
}

// TestSecPushesAreNotAllowed asks for what the repository, its lease or its mirror do not allow.
// The upstream sees none of it.
func TestSecPushesAreNotAllowed(t *testing.T) {
	t.Parallel()
	pull := func(branch string) func(*bench, *pushing.Request) {
		return func(_ *bench, r *pushing.Request) {
			r.Pull = &pushing.PullRequest{Branch: branch, Title: "t"}
		}
	}
	define := func(change func(*mirror.Definition)) func(*bench, *pushing.Request) {
		return func(b *bench, _ *pushing.Request) { change(&b.def) }
	}
	lost := errors.New("the lease is lost")
	var file *commitpack.FileError
	var ref *mirror.RefError
	for name, test := range map[string]struct {
		change  func(*bench, *pushing.Request)
		words   string
		matches func(error) bool
	}{
		"charts":                             {change: define(func(d *mirror.Definition) { d.Type = upstream.TypeHelm }), words: "Only Git repositories"},
		"images":                             {change: define(func(d *mirror.Definition) { d.Type = upstream.TypeOCI }), words: "Only Git repositories"},
		"a submodule":                        {change: define(func(d *mirror.Definition) { d.ParentUID = "parent" }), words: "submodule"},
		"push is off":                        {change: define(func(d *mirror.Definition) { d.Push = upstream.Push{} }), words: "push.branches"},
		"another branch":                     {change: func(_ *bench, r *pushing.Request) { r.Branch = "other" }, words: "push.branches"},
		"a pull request from another branch": {change: pull("hub/x"), words: "push.branches"},
		"a pull request into itself":         {change: pull("main"), words: "merge into"},
		"signed commits":                     {change: define(func(d *mirror.Definition) { d.Verification.Mode = upstream.ModeCommit }), words: "signed commits"},
		"no credential of its own":           {change: define(func(d *mirror.Definition) { d.Credential = upstream.Credential{} }), words: "no credential of its own"},
		"an unknown forge": {change: func(b *bench, r *pushing.Request) {
			b.def.Push.Forge = ""
			pull("leat/x")(b, r)
		}, words: "push.forge"},
		"a lease that is lost":                   {change: func(b *bench, _ *pushing.Request) { b.guard = func() error { return lost } }, matches: func(err error) bool { return errors.Is(err, lost) }},
		"another owner":                          {change: func(b *bench, _ *pushing.Request) { b.isOwner = false }, matches: func(err error) bool { return errors.Is(err, mirror.ErrNotOwner) }},
		"a new file":                             {change: func(_ *bench, r *pushing.Request) { r.Files["new.yaml"] = nil }, matches: func(err error) bool { return errors.As(err, &file) }},
		"a branch that the mirror does not have": {change: func(_ *bench, r *pushing.Request) { r.Branch = "leat/none" }, matches: func(err error) bool { return errors.As(err, &ref) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 0)
			request := b.request("image: web:2\n")
			test.change(b, &request)
			b.server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				t.Errorf("the upstream was asked: %s %s", r.Method, r.URL)
				return false
			})
			got, err := b.pusher.Push(t.Context(), b, request)
			if err == nil || got != (pushing.Result{}) {
				t.Fatalf("got %+v (%v), want a refusal", got, err)
			}
			switch {
			case test.matches == nil:
				wantReason(t, err, reason.PushNotAllowed)
				if !strings.Contains(err.Error(), test.words) {
					t.Errorf("got %v, want it to mention %q", err, test.words)
				}
				b.wantCounted(t, "not_allowed", 1)
			case !test.matches(err):
				t.Errorf("got %v", err)
			}
			if counts := b.counted(t); !b.isOwner && len(counts) != 0 {
				t.Errorf("got the outcomes %v, want a push of another replica counted there", counts)
			}
			b.wantUntouched(t, b.head)
			if strings.Contains(err.Error(), password) {
				t.Errorf("got %v, which has the password", err)
			}
		})
	}
}
