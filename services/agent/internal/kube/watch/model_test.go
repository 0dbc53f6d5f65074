// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// step is one event in a collection, in its server or on the network.
type step struct {
	name string
	do   func(s *subject, r *rand.Rand)
}

// quietly bounds the time until every change is reported after the end of all faults: a silent
// connection has to be noticed, and the pauses after errors have to pass.
const quietly = 8 * time.Minute

func edits() []step {
	name := func(r *rand.Rand) string { return fmt.Sprintf("object-%d", r.IntN(12)) }
	put := func(s *subject, r *rand.Rand) {
		s.fake.put(name(r), []string{"web", "web", "api", ""}[r.IntN(4)], fmt.Sprint(r.Int32()))
	}
	remove := func(s *subject, r *rand.Rand) { s.fake.delete(name(r)) }
	return []step{
		{"put", put},
		{"delete", remove},
		{"replace", func(s *subject, r *rand.Rand) {
			at := name(r)
			s.fake.delete(at)
			s.fake.put(at, "web", fmt.Sprint(r.Int32()))
		}},
		{"many edits", func(s *subject, r *rand.Rand) {
			for range 40 {
				put(s, r)
				remove(s, r)
			}
		}},
		{"foreign edits", func(s *subject, r *rand.Rand) {
			for range r.IntN(50) {
				s.fake.pass()
			}
		}},
	}
}

func faults() []step {
	return []step{
		{"cut", func(s *subject, _ *rand.Rand) { s.network.cut() }},
		{"freeze", func(s *subject, _ *rand.Rand) { s.network.freeze() }},
		{"forget", func(s *subject, _ *rand.Rand) { s.fake.forget() }},
		{"cut and forget", func(s *subject, _ *rand.Rand) {
			s.fake.forget()
			s.network.cut()
		}},
		{"go down", func(s *subject, _ *rand.Rand) { s.network.setDown(true) }},
		{"come up", func(s *subject, _ *rand.Rand) { s.network.setDown(false) }},
		{"doom connections", func(s *subject, r *rand.Rand) {
			s.network.setDoom(randomDoom(rand.New(rand.NewPCG(r.Uint64(), 1)), 1+r.IntN(4000)))
			s.network.cut()
		}},
		{"relist", func(s *subject, _ *rand.Rand) { s.watcher.Relist() }},
		{"refuse", func(s *subject, r *rand.Rand) { s.refuse(r) }},
		{"streams or pages", func(s *subject, r *rand.Rand) {
			s.fake.mu.Lock()
			s.fake.paged = r.IntN(2) == 0
			s.fake.mu.Unlock()
		}},
	}
}

// refuse makes the server answer some requests with errors.
func (s *subject) refuse(r *rand.Rand) {
	codes := []int{429, 500, 503, 504, 410, 403}
	reasons := []string{"TooManyRequests", "InternalError", "ServiceUnavailable", "Timeout", "Expired", "Forbidden"}
	of, header := r.IntN(len(codes)), http.Header{}
	if r.IntN(2) == 0 {
		header.Set("Retry-After", fmt.Sprint(1+r.IntN(20)))
	}
	requests := 0
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	s.fake.refuse = func(*http.Request) *http.Response {
		if requests++; requests%3 == 0 {
			return nil
		}
		return &http.Response{StatusCode: codes[of], Status: reasons[of], Header: header}
	}
}

// repair ends all faults, and waits until every object has been reported.
func (s *subject) repair() string {
	s.network.setDown(false)
	s.network.setDoom(nil)
	s.network.each(func(w *wire) { // a doom of before must not strike later
		w.mu.Lock()
		alive := !w.doomed
		w.mu.Unlock()
		if !alive {
			_ = w.Close()
		}
	})
	s.fake.mu.Lock()
	s.fake.refuse = nil
	s.fake.mu.Unlock()
	pass(quietly)
	if difference := s.difference(); difference != "" {
		return difference
	}
	if _, synced, _ := s.recorder.state(); synced == 0 {
		return "no list was completed"
	}
	return s.rememberedWrongly()
}

// rememberedWrongly compares the recorded objects with the ones that a later list would be compared
// with.
func (s *subject) rememberedWrongly() string {
	truth := s.fake.truth()
	if got, want := s.known.Len(), len(truth); got != want {
		return fmt.Sprintf("known objects: got %d, want %d", got, want)
	}
	for _, o := range s.known.Objects() {
		if want := truth[o.Name]; o.UID != want.UID || o.Label != want.Label || o.Namespace != "default" {
			return fmt.Sprintf("known of %s: got %+v, want %+v", o.Name, o, want)
		}
	}
	return ""
}

// play executes steps with pauses, and returns the final errors. A test calls it in a bubble of its
// own.
func (s *subject) play(steps []step, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0))
	for _, step := range steps {
		step.do(s, r)
		if r.IntN(3) > 0 {
			pass(time.Duration(r.Int64N(int64(20 * time.Second))))
		}
	}
	return s.repair()
}

// TestAnySequence plays random sequences of edits and faults.
func TestAnySequence(t *testing.T) {
	t.Parallel()
	all := append(edits(), faults()...)
	rapid.Check(t, func(rt *rapid.T) {
		var steps []step
		var names []string
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 1, 40).Draw(rt, "steps") {
			steps, names = append(steps, all[i]), append(names, all[i].name)
		}
		paged, seed := rapid.Bool().Draw(rt, "paged"), rapid.Uint64().Draw(rt, "seed")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *subject, p *watch.Params) { s.fake.paged, p.Settings.PageSize = paged, 3 })
			wrong = s.play(steps, seed)
		})
		if wrong != "" {
			rt.Fatalf("after %s:\n%s", strings.Join(names, ", "), wrong)
		}
	})
}

// TestHour edits objects every few seconds for a virtual hour, with a fault about every minute.
// Every few minutes it repairs the faults, and every object must be known then.
func TestHour(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, r := start(t, func(_ *subject, p *watch.Params) { p.Settings.PageSize = 5 }), rand.New(rand.NewPCG(seed, 1))
				for began := time.Now(); time.Since(began) < time.Hour; {
					for range 8 {
						s.act(r, faults())
						for range 15 {
							s.act(r, edits())
							pass(time.Duration(r.Int64N(int64(8 * time.Second))))
						}
					}
					if wrong := s.repair(); wrong != "" {
						t.Fatalf("after %v: %s", time.Since(began), wrong)
					}
				}
				s.undisturbed(t, r)
			})
		})
	}
}

func (s *subject) act(r *rand.Rand, steps []step) { steps[r.IntN(len(steps))].do(s, r) }

// undisturbed shows that without faults every single change is reported.
func (s *subject) undisturbed(t *testing.T, r *rand.Rand) {
	t.Helper()
	for i := range 200 {
		s.act(r, edits()[:3])
		synctest.Wait()
		if difference := s.difference(); difference != "" {
			t.Fatalf("edit %d: %s", i, difference)
		}
	}
}
