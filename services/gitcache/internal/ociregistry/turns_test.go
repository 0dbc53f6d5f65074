// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
)

// crowd answers as a registry with a number of tags, each with a digest that follows from a word. Pushing
// as many tags to a real one would take minutes.
type crowd struct {
	mu     sync.Mutex
	count  int
	word   string
	looked map[string]int // by tag
}

func (c *crowd) digest(tag string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(tag+c.word)))
}

func (c *crowd) serve(w http.ResponseWriter, r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, isManifest := strings.CutPrefix(r.URL.Path, "/v2/team/web/manifests/"); isManifest {
		c.looked[name]++
		w.Header().Set("Content-Type", registrytest.ManifestType)
		w.Header().Set("Docker-Content-Digest", "sha256:"+c.digest(name))
		w.Header().Set("Content-Length", "2")
		return true
	}
	tags := make([]string, c.count)
	for i := range tags {
		tags[i] = fmt.Sprintf("%q", crowdTag(i))
	}
	_, _ = fmt.Fprintf(w, `{"name": "team/web", "tags": [%s]}`, strings.Join(tags, ","))
	return true
}

// take returns how often each tag was looked up since the last call.
func (c *crowd) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	looked := c.looked
	c.looked = map[string]int{}
	return looked
}

func crowdTag(i int) string { return fmt.Sprintf("v%04d", i) }

// TestSecPollsAreBounded has more tags resolved than one poll may look up: a poll costs no more
// requests than it may, the tags that were resolved last are never late, every other one has its
// turn, and the state reports it.
func TestSecPollsAreBounded(t *testing.T) {
	t.Parallel()
	const tags, latest = 1030, 400 // and 630 others, in turns of 100
	c := &crowd{count: tags, word: "one", looked: map[string]int{}}
	f := newFront(t, "127.0.0.1:1", false)
	f.fail(c.serve)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	s.fetch(t)
	pin := func(from, to int) {
		t.Helper()
		names := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			names = append(names, mirror.TagPrefix+crowdTag(i))
		}
		s.now = s.now.Add(time.Minute)
		have, err := s.Pin(t.Context(), s.params(), names)
		if err != nil {
			t.Fatal(err)
		}
		s.have = have
	}
	pin(0, latest) // the tags resolved first are the others
	c.take()
	s.fetch(t)
	if looked := c.take(); len(looked) != latest || len(s.have.Notices) != 0 {
		t.Errorf("got %d tags looked at, and the notices %q; want all of them, and none", len(looked), s.have.Notices)
	}
	pin(latest, 630)
	pin(630, tags)
	c.take()

	c.mu.Lock()
	c.word = "two"
	c.mu.Unlock()
	total := map[string]int{}
	for poll := range 7 {
		s.fetch(t)
		looked := c.take()
		requests := 0
		for name, n := range looked {
			requests += n
			total[name] += n
		}
		if requests != ociregistry.MaxLooked {
			t.Errorf("poll %d: got %d requests, want %d", poll, requests, ociregistry.MaxLooked)
		}
		for i := 630; i < tags; i++ {
			if looked[crowdTag(i)] != 1 {
				t.Fatalf("poll %d: %s was not looked at, which was among the last to be resolved", poll, crowdTag(i))
			}
		}
		if len(s.have.Refs) != tags || len(s.have.Notices) != 1 || !strings.Contains(s.have.Notices[0], "1030 tags") ||
			!strings.Contains(s.have.Notices[0], "every 7th") {
			t.Fatalf("poll %d: got %d refs and the notices %q", poll, len(s.have.Refs), s.have.Notices)
		}
		for _, ref := range s.have.Refs {
			if ref.Object == "" {
				t.Fatalf("poll %d: %s is pinned no more", poll, ref.Name)
			}
		}
	}
	for i := range tags {
		name := crowdTag(i)
		if total[name] == 0 {
			t.Errorf("%s had no turn in seven polls", name)
		}
		if ref, _ := s.have.Refs.Get(mirror.TagPrefix + name); ref.Object != c.digest(name) {
			t.Errorf("%s: got %s, want what it was moved to", name, ref.Object)
		}
	}

	c.mu.Lock()
	c.count = 300 // the others are deleted
	c.mu.Unlock()
	s.fetch(t)
	if looked := c.take(); len(looked) != 300 || len(s.have.Refs) != 300 || len(s.have.Notices) != 0 {
		t.Errorf("got %d tags looked at, %d refs and %q; want 300 and no notice", len(looked), len(s.have.Refs), s.have.Notices)
	}
	s.now = s.now.Add(ociregistry.PinnedFor + time.Hour)
	s.fetch(t)
	if looked := c.take(); len(looked) != 0 {
		t.Errorf("got %d tags looked at a month later, want none", len(looked))
	}
}
