// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagesync_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/push"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// world is everything around a leader: the catalog, a registry, Git and the database. All policies read the repository images and
// write to the repository config.
type world struct {
	electiontest.Memory

	objects *fanout.Hub[catalog.Key]

	mu       sync.Mutex
	policies []*catalog.ImagePolicy
	tags     []string
	more     bool
	// failure is the answer to questions about tags, and hangs has those of a repository not be answered.
	failure error
	hangs   string
	// asked counts the questions about tags, by repository.
	asked  map[string]int
	files  map[string]string
	commit int
	pushes []push.Commit
	// unsaved is how many states are not saved, as if the database did not answer.
	unsaved int
	states  map[string]imagesync.State
	records []string
}

func newWorld(files map[string]string, policies ...*catalog.ImagePolicy) *world {
	w := &world{objects: fanout.NewHub[catalog.Key](1000), files: files, tags: []string{"1.0.0"}, asked: map[string]int{}, states: map[string]imagesync.State{}, policies: policies}
	return w
}

// policy returns a policy that writes.
func policy(name string) *catalog.ImagePolicy {
	return &catalog.ImagePolicy{Metadata: catalog.Metadata{Name: name, UID: "uid of " + name, ResourceVersion: 1}, Spec: catalog.ImagePolicySpec{
		Repository: "images", Write: &catalog.ImageWrite{Repository: "config", Branch: "main", Path: "apps"},
	}}
}

// lead runs a leader until its context ends.
func (w *world) lead(ctx context.Context, t *testing.T) {
	t.Helper()
	metrics, err := imagesync.NewMetrics(noop.NewMeterProvider().Meter(""))
	if err != nil {
		t.Fatal(err)
	}
	leader := imagesync.NewLeader(imagesync.Params{
		Store: w, Election: &w.Memory, Fleet: w, Upstream: w, Bundles: w, Objects: w.objects, Metrics: metrics, Logger: slog.New(slog.DiscardHandler), Holder: fmt.Sprint(time.Now()),
	})
	go func() { _ = leader.Run(ctx) }()
}

func (w *world) ImagePolicies() []*catalog.ImagePolicy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.policies)
}

func (w *world) Repository(path string) *catalog.Repository {
	r := &catalog.Repository{Metadata: catalog.Metadata{Name: path}}
	r.Spec.URL = "oci://registry.example/" + path
	return r
}

func (w *world) Tags(ctx context.Context, repository string, _ int) ([]string, bool, error) {
	w.mu.Lock()
	w.asked[repository]++
	tags, more, failure, hangs := w.tags, w.more, w.failure, w.hangs == repository
	w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, false, context.Cause(ctx)
	}
	return tags, more, failure
}

func (w *world) Digest(context.Context, string, string) (string, error) {
	return "sha256:" + strings.Repeat("ab", 32), nil
}

// packed returns the bundle of the files.
func (w *world) packed() (plain, packed []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var a, b bytes.Buffer
	out := bundle.NewWriter(&a, bundle.DefaultLimits())
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if err := out.WriteFile(name, false, int64(len(w.files[name])), strings.NewReader(w.files[name])); err != nil {
			return nil, nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, nil, err
	}
	z, err := bundle.Compress(&b)
	if err != nil {
		return nil, nil, err
	}
	_, err = z.Write(a.Bytes())
	if closing := z.Close(); err == nil {
		err = closing
	}
	return a.Bytes(), b.Bytes(), err
}

func (w *world) Resolve(context.Context, catalog.Source) (resolve.Answer, error) {
	plain, packed, err := w.packed()
	w.mu.Lock()
	defer w.mu.Unlock()
	return resolve.Answer{Snapshot: catalog.Snapshot{
		Commit: fmt.Sprint("c", w.commit), Digest: digest.FromBytes(plain), ContentSize: int64(len(plain)), StoredSize: int64(len(packed)), Files: len(w.files),
	}}, err
}

// blob is a stored bundle.
type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

func (w *world) Open(context.Context, plan.Bundle) (*cas.Blob, error) {
	_, packed, err := w.packed()
	return &cas.Blob{ReadSeekCloser: blob{bytes.NewReader(packed)}}, err
}

func (w *world) PushCommit(_ context.Context, commit push.Commit) (id, url string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if commit.Base != fmt.Sprint("c", w.commit) {
		return "", "", &resolve.Failure{Reason: reason.PushOutdated, Message: "the branch has moved"}
	}
	w.pushes = append(w.pushes, commit)
	if commit.PullRequest != nil {
		return "p", "https://git.example/1", nil
	}
	w.commit++
	w.files = maps.Clone(w.files)
	for name, content := range commit.Files {
		w.files[strings.TrimPrefix(name, "apps/")] = string(content)
	}
	return fmt.Sprint("c", w.commit), "", nil
}

func (w *world) Orders(context.Context) (map[string]int64, error) { return nil, nil }

func (w *world) Hold(ctx context.Context, term int64) error { return w.Beat(ctx, term) }

func (w *world) States(_ context.Context, uids []string) (map[string]imagesync.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	some := map[string]imagesync.State{}
	for _, uid := range uids {
		if state, ok := w.states[uid]; ok {
			some[uid] = state
		}
	}
	return some, nil
}

func (w *world) Ask(context.Context, string) (int64, error) { return 0, nil }

func (w *world) Save(_ context.Context, term int64, uid string, state imagesync.State, made *imagesync.Push) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unsaved > 0 {
		w.unsaved--
		return catalog.ErrUnavailable
	}
	return w.Write(term, func() {
		w.states[uid] = state
		if made != nil {
			w.records = append(w.records, made.Reason)
		}
	})
}

// of returns what the world holds, once everything has come to rest.
func (w *world) of(uid string) (state imagesync.State, pushes int, asked map[string]int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states[uid], len(w.pushes), maps.Clone(w.asked)
}

const marked = "image: web:0.9.0 # leat: image=default/web\n"

// TestLeaderFollowsTheClock looks without events. A policy whose registry does not answer has its own time, and does not keep others.
func TestLeaderFollowsTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := policy("stuck")
		stuck.Spec.Repository = "slow"
		w := newWorld(map[string]string{"web.yaml": marked}, stuck, policy("web"))
		w.hangs = "slow"
		ctx, cancel := context.WithCancel(t.Context())
		w.lead(ctx, t)
		time.Sleep(10 * time.Minute)
		state, pushes, asked := w.of("uid of web")
		if pushes != 1 || state.Commit != "c1" || state.Problem != nil || w.records[0] != "registry.example/images: web:0.9.0 → web:1.0.0; commit c1" {
			t.Errorf("got %+v, %d pushes and the records %q, want one push", state, pushes, w.records)
		}
		if asked["images"] < 9 || asked["images"] > 11 {
			t.Errorf("looked %d times in 10 minutes, want one look a minute", asked["images"])
		}
		if asked["slow"] < 2 || asked["slow"] > 5 {
			t.Errorf("looked %d times at the one that hangs, want a look after each timeout and its pause", asked["slow"])
		}
		if state, _, _ := w.of("uid of stuck"); state.Problem == nil || state.Problem.Reason != reason.DeadlineExceeded {
			t.Errorf("got %+v, want that the look took too long", state)
		}
		cancel()
		synctest.Wait()
	})
}

// TestLeaderPausesAfterFailures has the registry fail for an hour, and then answer.
func TestLeaderPausesAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(map[string]string{"web.yaml": marked}, policy("web"))
		w.failure = &resolve.Failure{Reason: reason.UpstreamUnreachable, Message: "the registry does not answer"}
		ctx, cancel := context.WithCancel(t.Context())
		w.lead(ctx, t)
		time.Sleep(time.Hour)
		if state, _, asked := w.of("uid of web"); asked["images"] < 12 || asked["images"] > 40 || state.Problem == nil || state.Problem.Reason != reason.UpstreamUnreachable {
			t.Errorf("got %+v after %d looks, want the failure, and ever longer pauses", state, asked["images"])
		}
		w.mu.Lock()
		w.failure = nil
		w.mu.Unlock()
		time.Sleep(6 * time.Minute)
		if state, pushes, _ := w.of("uid of web"); pushes != 1 || state.Problem != nil {
			t.Errorf("got %+v and %d pushes, want that it has recovered", state, pushes)
		}
		cancel()
		synctest.Wait()
	})
}

// TestLeadersWriteOnce has a leader end between its push and its record, and others follow.
func TestLeadersWriteOnce(t *testing.T) {
	t.Parallel()
	for name, isPullRequest := range map[string]bool{"a commit": false, "a pull request": true} {
		synctest.Test(t, func(t *testing.T) {
			own := policy("web")
			own.Spec.Write.PullRequest = isPullRequest
			w := newWorld(map[string]string{"web.yaml": marked}, own)
			if !isPullRequest {
				w.unsaved = 1
			}
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				w.lead(ctx, t)
				time.Sleep(5 * time.Minute)
				cancel()
				synctest.Wait()
			}
			if state, pushes, _ := w.of("uid of web"); pushes != 1 || state.Tag != "1.0.0" || state.Problem != nil {
				t.Errorf("%s: got %+v and %d pushes, want one", name, state, pushes)
			}
		})
	}
}

// TestSecBoundsOfImagePolicies has folders and registries hold more than may be read.
func TestSecBoundsOfImagePolicies(t *testing.T) {
	t.Parallel()
	many, long := map[string]string{}, map[string]string{"web.yaml": marked}
	for i := range 2_001 {
		many[fmt.Sprintf("%d.yaml", i)] = "a: 1\n"
	}
	for i := range 34 {
		long[fmt.Sprintf("%d.yaml", i)] = strings.Repeat("#", 1<<20)
	}
	large := map[string]string{"web.yaml": marked, "large.yaml": marked + "#" + strings.Repeat("x", 1<<20)}
	for name, test := range map[string]struct {
		files map[string]string
		more  bool
		want  string
	}{
		"files":  {files: many, want: "more than 2000 files of YAML"},
		"bytes":  {files: long, want: "bytes of YAML; at most"},
		"marks":  {files: map[string]string{"web.yaml": strings.Repeat("- "+marked, 1_001)}, want: "more than 1000 lines that name the policy"},
		"tags":   {files: map[string]string{"web.yaml": marked}, more: true, want: "more than 10000 tags"},
		"a file": {files: large},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(test.files, policy("web"))
			w.more = test.more
			ctx, cancel := context.WithCancel(t.Context())
			w.lead(ctx, t)
			time.Sleep(30 * time.Second)
			state, pushes, _ := w.of("uid of web")
			switch {
			case test.want == "" && (pushes != 1 || len(w.pushes[0].Files) != 1):
				t.Errorf("%s: got %+v and %d pushes, want one of the small file", name, state, pushes)
			case test.want != "" && (pushes != 0 || state.Problem == nil || !strings.Contains(state.Problem.Message, test.want)):
				t.Errorf("%s: got %+v and %d pushes, want a problem with %q", name, state, pushes, test.want)
			}
			cancel()
			synctest.Wait()
		})
	}
}
