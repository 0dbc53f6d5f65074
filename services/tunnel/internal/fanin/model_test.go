// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

// TestViewersSeeWhatTheirOwnWatchWouldShow plays at random: objects change, viewers come with all
// kinds of versions, stall, read and leave, watches end well or badly, histories are tiny. Whatever
// a viewer has read must be the beginning of what a watch of its own would have shown, and all of
// it when it has kept up.
func TestViewersSeeWhatTheirOwnWatchWouldShow(t *testing.T) {
	t.Parallel()
	seeds := 60
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		seeds = 20_000
	}
	var shared, lagged, read int64
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			stats, bytes := play(t, uint64(seed))
			shared, lagged, read = shared+stats.Shared, lagged+stats.Lagged, read+bytes
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if shared == 0 || lagged == 0 || read == 0 {
		t.Errorf("got %d viewers that shared, %d that fell behind, %d bytes read: want some of each", shared, lagged, read)
	}
}

// player is a viewer of whom the test knows what it should see.
type player struct {
	*viewer

	after  uint64 // zero: it asked for the state
	newest bool   // it asked for the newest one, before which the cluster had begun so many watches:
	begun  int
	list   bool // that state is a streamed list
	stalls bool
	left   bool
	step   chan int // how much to read
}

func play(t *testing.T, seed uint64) (stats fanin.Stats, read int64) {
	random := rand.New(rand.NewPCG(seed, 1))
	s := newAPIServer(random)
	s.pieces, s.pad = true, strings.Repeat("x", random.IntN(200))
	relay := fanin.New(fanin.Params{
		HistoryBytes: 400 + random.IntN(8000), HistoryEvents: 4 + random.IntN(40), TotalBytes: 1000 + random.IntN(30_000),
		Ahead: 1 + random.IntN(3000), FrameBytes: 4000, Linger: time.Second,
	})
	for range random.IntN(10) {
		s.touch(fmt.Sprint("o", random.IntN(8)))
	}
	var players []*player
	for range 150 {
		switch n := random.IntN(100); {
		case n < 40:
			s.touch(fmt.Sprint("o", random.IntN(8)))
		case n < 45:
			s.remove(fmt.Sprint("o", random.IntN(8)))
		case n < 50:
			s.bookmark()
		case n < 70:
			players = append(players, enter(t, relay, s, random))
		case n < 80 && len(players) > 0:
			players[random.IntN(len(players))].hangUp()
		case n < 82:
			s.endAll(io.EOF)
		case n < 84:
			s.endAll(errBroken)
		case n < 86:
			<-time.After(time.Duration(random.IntN(2000)) * time.Millisecond)
		default:
			for _, p := range players {
				p.read(1 + random.IntN(3000))
			}
		}
		if random.IntN(3) == 0 {
			synctest.Wait()
		}
	}
	for _, p := range players {
		p.stalls = false
		for range 2000 {
			p.read(4000)
		}
	}
	synctest.Wait()
	for i, p := range players {
		check(t, s, i, p)
		p.hangUp()
		read += int64(len(p.text()))
	}
	<-time.After(2 * time.Second) // the feeds' linger
	synctest.Wait()
	stats = relay.Stats()
	if _, open := s.counts(); open != 0 || stats.Upstreams != 0 || stats.Viewers != 0 || stats.Bytes != 0 {
		t.Errorf("got %d open watches and %+v after the last viewer, want none", open, stats)
	}
	return stats, read
}

var errBroken = errors.New("connection lost")

func enter(t *testing.T, relay *fanin.Relay, s *apiServer, random *rand.Rand) *player {
	p := &player{stalls: random.IntN(4) == 0, step: make(chan int, 10_000)}
	url := path
	p.begun, _ = s.counts()
	switch random.IntN(5) {
	case 0:
		url = anyState
	case 1:
		p.newest = true
	case 2:
		p.newest, p.list = true, true
		url = streamed
	default: // a version of late, of an event or not, perhaps from an API server that is ahead
		p.after = max(1, s.version+random.Uint64N(3)-min(s.version, random.Uint64N(12)))
		url = from(p.after)
	}
	v, err := ask(t, relay, s, url, nil)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	p.viewer = v
	go func() {
		defer close(p.done)
		for size := range p.step {
			if p.readSome(size) != nil {
				return
			}
		}
	}()
	return p
}

func (p *player) read(size int) {
	if p.stalls || p.left {
		return
	}
	select {
	case p.step <- size:
	default:
	}
}

func (p *player) hangUp() {
	if !p.left {
		p.left = true
		p.leave()
		close(p.step)
	}
}

// mayShow returns what the viewer may have seen, if it asked as the n-th watch of the cluster did,
// and not later.
func (p *player) mayShow(n int, w *upstream) (shown string, ok bool) {
	query := w.req.URL.Query()
	version, list := query.Get("resourceVersion"), query.Has("sendInitialEvents")
	if p.newest != (version == "") || !p.newest && version != "0" || p.list != list || p.newest && n < p.begun {
		return "", false
	}
	return w.all(), true
}

func check(t *testing.T, s *apiServer, i int, p *player) {
	t.Helper()
	got, whole := p.text(), ""
	if p.after > 0 {
		whole = s.direct(p.after)
		if !strings.HasPrefix(whole, got) {
			t.Errorf("viewer %d from %d: got\n%s\nwhich is no beginning of\n%s", i, p.after, got, whole)
			return
		}
	} else {
		found := false
		for n, w := range s.watches {
			shown, ok := p.mayShow(n, w)
			if ok && strings.HasPrefix(shown, got) && (whole != got || !found) {
				found, whole = true, shown
			}
		}
		if !found {
			t.Errorf("viewer %d of the state: got\n%s\nwhich no watch has shown", i, got)
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left:
	case errors.Is(p.err, io.EOF) && got != "" && !json.Valid([]byte(got[1+strings.LastIndex(strings.TrimSpace(got), "\n"):])):
		t.Errorf("viewer %d ended well in the middle of an event: %q", i, got)
	case p.err == nil && (p.after > 0 || p.list) && got != whole:
		t.Errorf("viewer %d from %d has kept up and got\n%s\nwant\n%s", i, p.after, got, whole)
	}
}
