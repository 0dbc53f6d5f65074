// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// fakeUpstream answers fetches with what a test puts into it, and counts.
type fakeUpstream struct {
	mu       sync.Mutex
	refs     map[string]string
	err      error
	takes    time.Duration
	fetches  int
	clones   int
	inFlight int
	most     int
	epochs   []uint64
	times    []time.Time
	objects  *objects // the content of commits, for verifiers
	notices  []string
	asked    []bool // whether each fetch was requested
}

// objects are commits by id, in the place of a mirror's files.
type objects struct {
	content.Reader
	mu      sync.Mutex
	commits map[string]string
	err     error
}

func (o *objects) Object(_ context.Context, id string) (content.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raw, ok := o.commits[id]
	switch {
	case o.err != nil:
		return content.Object{}, o.err
	case !ok:
		return content.Object{}, content.ErrCommitNotFound
	}
	kind := content.KindCommit
	if strings.HasPrefix(raw, "object ") {
		kind = content.KindTag
	}
	return content.Object{Kind: kind, Data: []byte(raw)}, nil
}

const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func (o *objects) Tree(context.Context, string, string) (string, error) { return emptyTree, nil }

func (o *objects) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (o *objects) Close() error { return nil }

// Open implements content.Opener.
func (o *objects) Open(context.Context, string) (content.Reader, error) { return o, nil }

func (u *fakeUpstream) Check(mirror.Definition) error { return nil }

func (u *fakeUpstream) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	u.begin(p)
	defer u.end()
	if err := backoff.Wait(ctx, u.takes); err != nil {
		return mirror.Content{}, err
	}
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return mirror.Content{}, u.err
	}
	var refs []mirror.Ref
	for name, commit := range u.refs {
		refs = append(refs, mirror.Ref{Name: name, Object: commit, Commit: commit})
	}
	fetched := mirror.Content{Refs: mirror.NewRefs(refs), FreshAt: time.Now(), Epoch: p.Epoch}
	fetched.Partial, fetched.FilledAt, fetched.Notices = p.Definition.PartialClone, p.Have.FilledAt, u.notices
	return p.Admit(ctx, u.objects, fetched)
}

func (u *fakeUpstream) begin(p mirror.FetchParams) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fetches++
	u.asked = append(u.asked, p.IsRequested)
	if !p.Have.Exists() {
		u.clones++
	}
	u.inFlight++
	u.most = max(u.most, u.inFlight)
	u.epochs = append(u.epochs, p.Epoch)
	u.times = append(u.times, time.Now())
}

func (u *fakeUpstream) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inFlight--
}

func (u *fakeUpstream) set(refs map[string]string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refs, u.err = refs, err
}

func (u *fakeUpstream) notice(notices ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.notices = notices
}

func (u *fakeUpstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fetches
}

// mirrors is a disk without anything on it.
type mirrors struct {
	loaded map[string]mirror.Content
	full   bool // nothing can be copied to it
	disk   *disk
}

func (m mirrors) Load(_ context.Context, uid string) (mirror.Content, error) {
	if c, ok := m.loaded[uid]; ok {
		return c, nil
	}
	return mirror.Content{}, mirror.ErrNoMirror
}

func (m mirrors) Remove(_ context.Context, uid string) error {
	m.disk.remove(uid)
	return nil
}

func (m mirrors) SaveDelivery(context.Context, string, mirror.Content) error { return nil }

func (m mirrors) Export(context.Context, string) (string, []mirror.File, error) {
	return "gen-1", nil, nil
}

func (m mirrors) OpenFile(context.Context, string, string, string) (io.ReadCloser, error) {
	return nil, mirror.ErrNoMirror
}

func (m mirrors) Adopt(
	_ context.Context, _ string, c mirror.Copy, _ func(context.Context, mirror.File) (io.ReadCloser, error),
) (mirror.Content, error) {
	if m.full {
		return mirror.Content{}, errors.New("disk is full")
	}
	return c.Content, nil
}

func (m mirrors) Confirm(context.Context, string, mirror.Content) error { return nil }

// disk is a folder of mirrors that is as full as a test wants.
type disk struct {
	mu      sync.Mutex
	stored  []mirror.Stored
	limit   int64
	named   map[string]bool
	sure    bool
	removed []string
	compact func(uid string) (mirror.Compaction, error)
	look    func() // told when a caller lists the content
}

func (d *disk) Stored() []mirror.Stored {
	if d.look != nil {
		d.look()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.stored)
}

func (d *disk) Usage() mirror.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := mirror.Usage{Limit: d.limit}
	for _, s := range d.stored {
		u.Bytes += s.Bytes
	}
	return u
}

func (d *disk) Compact(
	ctx context.Context, uid string, enter func(context.Context) (leave func(), err error),
) (mirror.Compaction, error) {
	if d.compact == nil {
		return mirror.Compaction{}, nil
	}
	leave, err := enter(ctx)
	if err != nil {
		return mirror.Compaction{}, err
	}
	defer leave()
	return d.compact(uid)
}

func (d *disk) Named() (map[string]bool, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.named), d.sure
}

func (d *disk) remove(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed = append(d.removed, uid)
	d.stored = slices.DeleteFunc(d.stored, func(s mirror.Stored) bool { return s.UID == uid })
}

// eventLog keeps events, and fails on demand.
type eventLog struct {
	mu     sync.Mutex
	events []mirror.Event
	err    error
}

func (l *eventLog) Append(_ context.Context, e mirror.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.events = append(l.events, e)
	return nil
}

func (l *eventLog) States(context.Context) ([]mirror.Event, string, error) {
	return nil, strconv.Itoa(len(l.all())), nil
}

func (l *eventLog) Probe(context.Context, string) error { return nil }

// Read looks ten times a second, as good as at once where time is virtual.
func (l *eventLog) Read(ctx context.Context, token string) ([]mirror.Logged, error) {
	after, err := strconv.Atoi(token)
	if err != nil {
		return nil, err
	}
	for backoff.Wait(ctx, 100*time.Millisecond) == nil {
		var logged []mirror.Logged
		for i, e := range l.all()[after:] {
			logged = append(logged, mirror.Logged{Token: strconv.Itoa(after + i + 1), Event: e})
		}
		if len(logged) > 0 {
			return logged, nil
		}
	}
	return nil, nil
}

func (l *eventLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *eventLog) all() []mirror.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// fleet are the replicas that live now. All know of one another at once.
type fleet struct {
	mu    sync.Mutex
	sets  map[string]*mirroring.Set
	asked []string // which replicas were asked to refresh, and as what
}

func (f *fleet) Members() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.sets))
}

func (f *fleet) repository(replica string, def mirror.Definition) (*mirroring.Repository, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set, ok := f.sets[replica]
	if !ok {
		return nil, errors.New("replica does not answer")
	}
	return set.Get(def.Name)
}

func (f *fleet) Inspect(_ context.Context, replica string, def mirror.Definition, _ string) (mirror.Copy, error) {
	r, err := f.repository(replica, def)
	if err != nil {
		return mirror.Copy{}, err
	}
	c, err := r.Content()
	if err != nil {
		return mirror.Copy{}, mirror.ErrNoMirror
	}
	return mirror.Copy{Fingerprint: c.Fingerprint(), Content: c}, nil
}

func (f *fleet) Read(context.Context, string, mirror.Definition, string, string) (io.ReadCloser, error) {
	return nil, mirror.ErrNoMirror
}

func (f *fleet) FetchBlobs(ctx context.Context, replica string, def mirror.Definition, ids []string) error {
	r, err := f.repository(replica, def)
	if err != nil {
		return err
	}
	return r.Fill(ctx, ids)
}

func (f *fleet) Pin(ctx context.Context, replica string, def mirror.Definition, names []string) error {
	r, err := f.repository(replica, def)
	if err != nil {
		return err
	}
	return r.LookUp(ctx, names)
}

func (f *fleet) Refresh(ctx context.Context, replica string, def mirror.Definition, via mirror.Via, wait bool) (*mirror.Problem, error) {
	r, err := f.repository(replica, def)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mirror.ErrNoAnswer, err)
	}
	f.mu.Lock()
	f.asked = append(f.asked, string(via)+" "+replica)
	f.mu.Unlock()
	state, err := r.Refresh(ctx, wait)
	return state.Problem, err
}

func (f *fleet) TakeOver(ctx context.Context, replica string, def mirror.Definition) error {
	r, err := f.repository(replica, def)
	if err != nil {
		return err
	}
	_, err = r.TakeOver(ctx)
	return err
}

func (f *fleet) join(url string, set *mirroring.Set) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sets[url] = set
}

func (f *fleet) leave(url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sets, url)
}

// backend is put together of the doubles that tests change one by one.
type backend struct {
	*fakeUpstream
	*filler
	*gate
	mirrors
	*disk
	content.Opener
}

func (b backend) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	return b.fakeUpstream.Fetch(ctx, p)
}

// world is shared by the replicas.
type world struct {
	upstream *fakeUpstream
	events   *eventLog
	leases   lease.Store
	fleet    *fleet
	// followers is the setting of replicas that start.
	followers int
	full      bool      // the disk of replicas that start
	log       io.Writer // nil: nowhere
	gate      *gate
	disk      *disk
	filler    *filler
	meter     metric.Meter
}

func definition(name string) mirror.Definition {
	return mirror.Definition{Name: name, UID: "uid-" + name, Version: 1, Definition: upstream.Definition{URL: "https://git.invalid/" + name, PollInterval: time.Minute}}
}

// replica starts a set with these repositories; stop ends it and waits.
func (w world) replica(t *testing.T, name string, loaded map[string]mirror.Content, defs ...mirror.Definition) (set *mirroring.Set, stop func()) {
	t.Helper()
	set, run := w.member(t, name, loaded, defs...)
	return set, run()
}

// member makes a set that the others count as a replica already, and that does nothing before run
// is called: where it matters that several replicas know each other from the first moment.
func (w world) member(t *testing.T, name string, loaded map[string]mirror.Content, defs ...mirror.Definition) (set *mirroring.Set, run func() (stop func())) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if w.log != nil {
		logger = slog.New(slog.NewTextHandler(w.log, nil))
	}
	set, err := mirroring.NewSet(mirroring.Deps{
		Backend: backend{w.upstream, w.filler, w.gate, mirrors{loaded, w.full, w.disk}, w.disk, w.upstream.objects},
		Objects: nil, Named: w.disk, Events: w.events, Leases: w.leases, Peers: w.fleet,
		Replicas: w.fleet, Self: "http://" + name, Settings: mirroring.Settings{Followers: w.followers}, Logger: logger,
		Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: w.meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	set.Apply(defs)
	w.fleet.join("http://"+name, set)
	return set, func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = set.Run(ctx)
		}()
		return func() {
			w.fleet.leave("http://" + name)
			cancel()
			<-done
		}
	}
}

func get(t *testing.T, set *mirroring.Set, name string) *mirroring.Repository {
	t.Helper()
	r, err := set.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
