// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// fakeServer is an API server for watches of ConfigMaps, for tests of timing and of faults that a
// real one cannot be made to have. The suite that the real one passes checks its behaviour: see
// TestServerConformance.
type fakeServer struct {
	mu       sync.Mutex
	revision int
	oldest   int // what was before is forgotten
	history  []change
	current  map[string]map[string]any // what there is at revision, by name
	uids     int
	changed  chan struct{} // closed and replaced at every change

	paged   bool                               // streaming lists are not offered
	refuse  func(*http.Request) *http.Response // nil, or an answer in place of the right one
	served  map[string]int                     // requests by what they ask for
	pageEnd func()                             // called after each page but the last; nil does nothing
}

// change is one version of one object.
type change struct {
	revision int
	name     string
	before   map[string]any // nil where it is new
	after    map[string]any // nil where it is gone
}

const bookmarkInterval = time.Minute

func newFakeServer() *fakeServer {
	return &fakeServer{revision: 100, current: map[string]map[string]any{}, changed: make(chan struct{}), served: map[string]int{}}
}

// put creates or changes an object.
func (f *fakeServer) put(name, service, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.current[name]
	metadata := map[string]any{"name": name, "namespace": "default"}
	if before == nil {
		f.uids++
		metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", f.uids)
	} else {
		metadata["uid"] = before["metadata"].(map[string]any)["uid"]
	}
	if service != "" {
		metadata["labels"] = map[string]any{serviceLabel: service}
	}
	f.record(name, before, map[string]any{"metadata": metadata, "data": map[string]any{"value": data}})
}

func (f *fakeServer) delete(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.current[name]; before != nil {
		f.record(name, before, nil)
	}
}

func (f *fakeServer) record(name string, before, after map[string]any) {
	f.revision++
	if after != nil {
		after["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.revision)
	}
	f.history = append(f.history, change{revision: f.revision, name: name, before: before, after: after})
	apply(f.current, f.history[len(f.history)-1])
	f.signal()
}

// pass increases the revision without a change of these objects, as changes of other objects do.
func (f *fakeServer) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.signal()
}

// forget makes all earlier revisions too old.
func (f *fakeServer) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.oldest = f.revision
}

func (f *fakeServer) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// state returns the objects at a revision, by name. The caller holds f.mu.
func (f *fakeServer) state(revision int) map[string]map[string]any {
	if revision == f.revision {
		return f.current
	}
	all := map[string]map[string]any{}
	for _, c := range f.history {
		if c.revision <= revision {
			apply(all, c)
		}
	}
	return all
}

func apply(state map[string]map[string]any, c change) {
	if c.after == nil {
		delete(state, c.name)
	} else {
		state[c.name] = c.after
	}
}

// matching returns the selected objects at a revision by name. The caller holds f.mu.
func (f *fakeServer) matching(revision int, selector labels.Selector) []map[string]any {
	state := f.state(revision)
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if matches(selector, state[name]) {
			all = append(all, state[name])
		}
	}
	return all
}

func matches(selector labels.Selector, object map[string]any) bool {
	if object == nil {
		return false
	}
	set := labels.Set{}
	values, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
	for k, v := range values {
		set[k] = v.(string)
	}
	return selector.Matches(set)
}

// ServeHTTP implements http.Handler.
func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	f.mu.Lock()
	refuse := f.refuse
	f.served[kindOf(query)]++
	f.mu.Unlock()
	if refuse != nil {
		if answer := refuse(r); answer != nil {
			maps.Copy(w.Header(), answer.Header)
			sendStatus(w, answer.StatusCode, answer.Status)
			return
		}
	}
	switch {
	case r.URL.Path != "/api/v1/configmaps":
		http.Error(w, "404 page not found", http.StatusNotFound)
	case err != nil:
		sendStatus(w, http.StatusBadRequest, "BadRequest")
	case query.Get("watch") == "true":
		f.watch(w, r, query, selector)
	default:
		f.list(w, query, selector)
	}
}

func kindOf(query url.Values) string {
	switch {
	case query.Get("sendInitialEvents") == "true":
		return "stream"
	case query.Get("watch") == "true":
		return "watch"
	default:
		return "list"
	}
}

func statusBody(code int, reason string) map[string]any {
	return map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason + ", says the fake",
	}
}

func sendStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(statusBody(code, reason))
}

func (f *fakeServer) list(w http.ResponseWriter, query url.Values, selector labels.Selector) {
	f.mu.Lock()
	revision, after := f.revision, ""
	if token := query.Get("continue"); token != "" {
		text, _ := base64.StdEncoding.DecodeString(token)
		at, name, _ := strings.Cut(string(text), "/")
		revision, _ = strconv.Atoi(at)
		after = name
	}
	if revision < f.oldest {
		f.mu.Unlock()
		sendStatus(w, http.StatusGone, string(metav1.StatusReasonExpired))
		return
	}
	items := slices.DeleteFunc(f.matching(revision, selector), func(o map[string]any) bool { return nameOf(o) <= after })
	pageEnd := f.pageEnd
	f.mu.Unlock()
	metadata := map[string]any{"resourceVersion": strconv.Itoa(revision)}
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && limit < len(items) {
		items = items[:limit]
		metadata["continue"] = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s", revision, nameOf(items[limit-1])))
		if pageEnd != nil {
			defer pageEnd()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})
}

func nameOf(o map[string]any) string { return o["metadata"].(map[string]any)["name"].(string) }

func (f *fakeServer) watch(w http.ResponseWriter, r *http.Request, query url.Values, selector labels.Selector) {
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	end := time.NewTicker(cmp.Or(time.Duration(seconds)*time.Second, time.Hour))
	defer end.Stop()
	initial := query.Get("sendInitialEvents") == "true"
	f.mu.Lock()
	paged, oldest, revision := f.paged, f.oldest, f.revision
	f.mu.Unlock()
	if initial && (paged || query.Get("resourceVersionMatch") != "NotOlderThan") {
		sendStatus(w, http.StatusUnprocessableEntity, string(metav1.StatusReasonInvalid))
		return
	}
	s := &session{fake: f, selector: selector, out: json.NewEncoder(w), flush: http.NewResponseController(w), position: revision}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if from, err := strconv.Atoi(query.Get("resourceVersion")); err == nil && from > 0 {
		if s.position = from; from < oldest {
			_ = s.send("ERROR", statusBody(http.StatusGone, string(metav1.StatusReasonExpired)))
			return
		}
	} else if s.initial(initial) != nil {
		return
	}
	s.run(r, end.C)
}

// session is one watch.
type session struct {
	fake     *fakeServer
	selector labels.Selector
	out      *json.Encoder
	flush    *http.ResponseController
	position int
}

func (s *session) send(kind string, object map[string]any) error {
	if kind != "ERROR" {
		object = maps.Clone(object)
		object["kind"], object["apiVersion"] = "ConfigMap", "v1"
	}
	if err := s.out.Encode(map[string]any{"type": kind, "object": object}); err != nil {
		return err
	}
	return s.flush.Flush()
}

func (s *session) initial(end bool) error {
	s.fake.mu.Lock()
	items := s.fake.matching(s.position, s.selector)
	s.fake.mu.Unlock()
	for _, o := range items {
		if err := s.send("ADDED", o); err != nil {
			return err
		}
	}
	if !end {
		return s.flush.Flush()
	}
	return s.bookmark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
}

func (s *session) bookmark(annotations map[string]any) error {
	metadata := map[string]any{"resourceVersion": strconv.Itoa(s.position)}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return s.send("BOOKMARK", map[string]any{"metadata": metadata})
}

func (s *session) run(r *http.Request, end <-chan time.Time) {
	_ = s.flush.Flush()
	bookmarks := time.NewTicker(bookmarkInterval)
	defer bookmarks.Stop()
	for {
		s.fake.mu.Lock()
		news, revision, changed := s.fake.since(s.position), s.fake.revision, s.fake.changed
		s.fake.mu.Unlock()
		for _, c := range news {
			if s.forward(c) != nil {
				return
			}
		}
		s.position = revision
		select {
		case <-r.Context().Done():
			return
		case <-end:
			return
		case <-bookmarks.C:
			if s.bookmark(nil) != nil {
				return
			}
		case <-changed:
		}
	}
}

func (f *fakeServer) since(revision int) []change {
	at, _ := slices.BinarySearchFunc(f.history, revision+1, func(c change, r int) int { return cmp.Compare(c.revision, r) })
	return f.history[at:]
}

// forward sends a change in the form that a watch with a label selector sees.
func (s *session) forward(c change) error {
	before, after := matches(s.selector, c.before), matches(s.selector, c.after)
	switch {
	case before && after:
		return s.send("MODIFIED", c.after)
	case after:
		return s.send("ADDED", c.after)
	case before: // the last state that was selected, and when it ended
		last := maps.Clone(c.before)
		metadata := maps.Clone(last["metadata"].(map[string]any))
		metadata["resourceVersion"] = strconv.Itoa(c.revision)
		last["metadata"] = metadata
		return s.send("DELETED", last)
	default:
		return nil
	}
}
