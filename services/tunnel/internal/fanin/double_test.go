// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

// apiServer is a double of an API server's watch cache: it remembers every change and answers
// watches from any version that it has not compacted.
type apiServer struct {
	pad    string // makes events longer
	pieces bool   // answers come in pieces of random lengths
	refuse int    // status of every answer, if set
	header http.Header
	gate   chan struct{} // a request may be sent when something comes of it; nil: at once

	mu        sync.Mutex
	version   uint64
	compacted uint64
	objects   map[string]string // the frame that adds it, by name
	log       []change
	watches   []*upstream
	released  int
	random    *rand.Rand
}

type change struct {
	version uint64
	frame   string
}

func newAPIServer(random *rand.Rand) *apiServer {
	return &apiServer{random: random, objects: map[string]string{}}
}

func (s *apiServer) frame(kind, name string, version uint64) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"%d"},"data":{"pad":%q}}}`+"\n",
		kind, name, version, s.pad)
}

// touch changes an object, or makes it, and returns the version.
func (s *apiServer) touch(name string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 1 + s.random.Uint64N(3) // other resources have changed in between
	kind := "MODIFIED"
	if s.objects[name] == "" {
		kind = "ADDED"
	}
	s.objects[name] = s.frame("ADDED", name, s.version)
	s.record(s.frame(kind, name, s.version))
	return s.version
}

func (s *apiServer) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[name] == "" {
		return
	}
	s.version++
	delete(s.objects, name)
	s.record(s.frame("DELETED", name, s.version))
}

func (s *apiServer) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.record(s.frame("BOOKMARK", "", s.version))
}

func (s *apiServer) record(frame string) {
	s.log = append(s.log, change{version: s.version, frame: frame})
	for _, w := range s.watches {
		w.send(s.version, frame)
	}
}

// direct holds the events of a watch from a version.
func (s *apiServer) direct(after uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since(after)
}

func (s *apiServer) since(after uint64) string {
	var b strings.Builder
	for _, c := range s.log {
		if c.version > after {
			b.WriteString(c.frame)
		}
	}
	return b.String()
}

// state holds the first events of a watch without a version.
func (s *apiServer) state() string {
	names := make([]string, 0, len(s.objects))
	for name := range s.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(s.objects[name])
	}
	return b.String()
}

// list holds the first events of a watch that asks for a streamed list (KEP-3157).
func (s *apiServer) list() string {
	end := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`
	return s.state() + fmt.Sprintf(`{"type":"BOOKMARK","object":`+end+"}\n", s.version)
}

// counts returns how many watches were begun, and how many are open.
func (s *apiServer) counts() (begun, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches), len(s.watches) - s.released
}

// endAll ends all watches that are open, with io.EOF or otherwise.
func (s *apiServer) endAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.end(err)
	}
}

// last returns the watch that was begun last.
func (s *apiServer) last() *upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches[len(s.watches)-1]
}

// open implements fanin.Opener.
func (s *apiServer) open(context.Context) (fanin.Upstream, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &upstream{server: s, id: strconv.Itoa(len(s.watches)), wake: make(chan struct{}, 1)}
	s.watches = append(s.watches, w)
	return w, nil
}

// upstream is one request to the server, and the body of its answer.
type upstream struct {
	server *apiServer
	id     string
	wake   chan struct{}

	mu    sync.Mutex
	req   *http.Request
	began bool
	after uint64
	sent  strings.Builder // everything, whether it was read or not
	read  int
	ended error
}

func (u *upstream) Connection() string { return u.id }

func (u *upstream) Release() {
	u.server.mu.Lock()
	defer u.server.mu.Unlock()
	u.server.released++
	u.end(errors.New("released"))
}

func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	s := u.server
	s.mu.Lock()
	defer s.mu.Unlock()
	header := http.Header{"Content-Type": {"application/json"}}
	for name, values := range s.header {
		header[name] = values
	}
	res := &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Body: u, ContentLength: -1, Request: req,
	}
	u.mu.Lock()
	u.req = req
	u.mu.Unlock()
	version := req.URL.Query().Get("resourceVersion")
	after, _ := strconv.ParseUint(version, 10, 64)
	switch {
	case s.refuse > 0:
		res.StatusCode = s.refuse
		u.sendAll("refused")
		u.end(io.EOF)
	case version != "" && version != "0" && after < s.compacted:
		res.StatusCode = http.StatusGone
		u.sendAll("too old")
		u.end(io.EOF)
	case req.URL.Query().Get("sendInitialEvents") == "true":
		u.begin(s.version, s.list())
	case after == 0:
		u.begin(s.version, s.state())
	default:
		u.begin(after, s.since(after))
	}
	return res, nil
}

func (u *upstream) begin(after uint64, frames string) {
	u.mu.Lock()
	u.began, u.after = true, after
	u.mu.Unlock()
	u.sendAll(frames)
}

// send adds to what a watch that has begun shows. One that began with a version that is still to
// come waits for it.
func (u *upstream) send(version uint64, frame string) {
	u.mu.Lock()
	shows := u.began && version > u.after
	u.mu.Unlock()
	if shows {
		u.sendAll(frame)
	}
}

func (u *upstream) sendAll(frames string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended == nil {
		u.sent.WriteString(frames)
		u.tell()
	}
}

func (u *upstream) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended == nil {
		u.ended = err
		u.tell()
	}
}

func (u *upstream) tell() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// all is everything that the watch has shown.
func (u *upstream) all() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent.String()
}

// taken is how much of it was read.
func (u *upstream) taken() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.read
}

func (u *upstream) Read(p []byte) (int, error) {
	for {
		if n, err := u.next(p); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-u.wake:
		case <-u.req.Context().Done():
			return 0, u.req.Context().Err()
		}
	}
}

func (u *upstream) next(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	rest := u.sent.String()[u.read:]
	if rest == "" {
		return 0, u.ended
	}
	n := min(len(p), len(rest))
	if u.server.pieces {
		n = 1 + rand.IntN(n)
	}
	copy(p, rest[:n])
	u.read += n
	return n, nil
}

func (u *upstream) Close() error { return nil }

// viewer is one caller with a watch.
type viewer struct {
	t      testing.TB
	watch  *fanin.Watch
	res    *http.Response
	cancel context.CancelFunc

	mu   sync.Mutex
	got  strings.Builder
	err  error
	done chan struct{}
}

// A watch without a version shows the newest state first, a streamed list as well and marks its
// end, and anyState any state that there has been.
const (
	path     = "http://kubernetes/api/v1/configmaps?watch=true"
	streamed = path + "&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
	anyState = path + "&resourceVersion=0"
)

// ask makes a viewer of an answer. It does not read.
func ask(t testing.TB, relay *fanin.Relay, s *apiServer, url string, change func(*http.Request)) (*viewer, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Impersonate-User", "ada")
	if change != nil {
		change(req)
	}
	v := &viewer{t: t, watch: relay.Watch("demo", s.open, func() {}), cancel: cancel, done: make(chan struct{})}
	if v.res, err = v.watch.RoundTrip(req); err != nil {
		v.watch.Release()
		cancel()
		return nil, err
	}
	return v, nil
}

// watch asks and reads until the end.
func watch(t testing.TB, relay *fanin.Relay, s *apiServer, url string) *viewer {
	t.Helper()
	v, err := ask(t, relay, s, url, nil)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	go v.readAll()
	return v
}

func from(version uint64) string { return path + "&resourceVersion=" + strconv.FormatUint(version, 10) }

func (v *viewer) readAll() {
	defer close(v.done)
	for v.readSome(32<<10) == nil {
	}
}

// readSome reads once.
func (v *viewer) readSome(size int) error {
	p := make([]byte, size)
	n, err := v.res.Body.Read(p)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.got.Write(p[:n])
	v.err = err
	return err
}

func (v *viewer) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.got.String()
}

// leave hangs up.
func (v *viewer) leave() {
	v.cancel()
	_ = v.res.Body.Close()
	v.watch.Release()
}
