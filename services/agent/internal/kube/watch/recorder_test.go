// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

const serviceLabel = "leat.dev/service"

func configMaps() watch.Collection {
	return watch.Collection{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Selector: serviceLabel, Label: func(o *unstructured.Unstructured) string { return o.GetLabels()[serviceLabel] },
	}
}

// recorder is a Handler that records its calls, and detects invalid ones.
type recorder struct {
	mu      sync.Mutex
	objects map[string]seen
	log     []string // everything, where wanted
	logging bool
	synced  int
	wrong   []string
	changed chan struct{} // closed and replaced at every change
}

// seen is the last reported state of an object.
type seen struct{ UID, Version, Label, Value string }

func newRecorder() *recorder {
	return &recorder{objects: map[string]seen{}, changed: make(chan struct{})}
}

// Seen implements watch.Handler.
func (r *recorder) Seen(o *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := seen{UID: string(o.GetUID()), Version: o.GetResourceVersion(), Label: o.GetLabels()[serviceLabel]}
	now.Value, _, _ = unstructured.NestedString(o.Object, "data", "value")
	before, had := r.objects[o.GetName()]
	if had && before.UID != now.UID {
		r.wrongf("%s: seen with uid %s while %s is not gone", o.GetName(), now.UID, before.UID)
	}
	if had && before.UID == now.UID && older(now.Version, before.Version) {
		r.wrongf("%s: seen at %s after %s", o.GetName(), now.Version, before.Version)
	}
	if o.GetKind() != "ConfigMap" || o.GetAPIVersion() != "v1" {
		r.wrongf("%s: seen as %s", o.GetName(), o.GroupVersionKind())
	}
	r.objects[o.GetName()] = now
	r.notef("seen %s %s %s", o.GetName(), now.Label, now.Value)
}

// Gone implements watch.Handler.
func (r *recorder) Gone(o watch.Object, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, had := r.objects[o.Name]
	if !had || before.UID != o.UID || before.Label != o.Label {
		r.wrongf("%s: gone as %s of %s, seen was %+v", o.Name, o.UID, o.Label, before)
	}
	if had && older(version, before.Version) {
		r.wrongf("%s: gone at %s, after %s", o.Name, version, before.Version)
	}
	delete(r.objects, o.Name)
	r.notef("gone %s %s", o.Name, o.Label)
}

func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Synced implements watch.Handler.
func (r *recorder) Synced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced++
	r.notef("synced")
}

// Denied implements watch.Handler.
func (r *recorder) Denied(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notef("denied")
}

func (r *recorder) wrongf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (r *recorder) notef(format string, args ...any) {
	if r.logging {
		r.log = append(r.log, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// state returns the current state, and a channel for the next change.
func (r *recorder) state() (objects map[string]seen, synced int, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.objects), r.synced, r.changed
}

// take returns and clears the log.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

func (r *recorder) mistakes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wrong)
}

// truth returns the expected state of a recorder for a fake.
func (f *fakeServer) truth() map[string]seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]seen{}
	for name, o := range f.state(f.revision) {
		u := unstructured.Unstructured{Object: o}
		if label := u.GetLabels()[serviceLabel]; label != "" {
			value, _, _ := unstructured.NestedString(o, "data", "value")
			all[name] = seen{UID: string(u.GetUID()), Version: u.GetResourceVersion(), Label: label, Value: value}
		}
	}
	return all
}

// subject is a Watcher at work on a fake.
type subject struct {
	fake     *fakeServer
	network  *network
	recorder *recorder
	known    *watch.Known
	watcher  *watch.Watcher
	ended    chan error
}

// start runs a Watcher until the test ends.
func start(t *testing.T, change ...func(*subject, *watch.Params)) *subject {
	t.Helper()
	s := &subject{fake: newFakeServer(), recorder: newRecorder(), known: watch.NewKnown()}
	s.network = &network{handler: s.fake}
	server, _, _ := s.network.server(t)
	p := watch.Params{
		Server: server, Collection: configMaps(), Handler: s.recorder, Known: s.known, Logger: quiet(),
	}
	for _, c := range change {
		c(s, &p)
	}
	s.watcher = watch.New(p)
	s.ended = run(t, s.watcher)
	return s
}

// logging is a change for start: the recorder logs all calls.
func logging(s *subject, _ *watch.Params) { s.recorder.logging = true }

// run runs a Watcher until the test ends. An earlier result can be received, and has to be put
// back.
func run(t testing.TB, w *watch.Watcher) chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return ended
}

// assert compares the recorder's state with the server's.
func (s *subject) assert(t *testing.T) {
	t.Helper()
	if difference := s.difference(); difference != "" {
		t.Error(difference)
	}
}

func (s *subject) difference() string {
	got, _, _ := s.recorder.state()
	if diff := cmp.Diff(s.fake.truth(), got); diff != "" {
		return "objects (-want +got):\n" + diff
	}
	if wrong := s.recorder.mistakes(); len(wrong) > 0 {
		return "told wrongly:\n" + strings.Join(wrong, "\n")
	}
	return ""
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
