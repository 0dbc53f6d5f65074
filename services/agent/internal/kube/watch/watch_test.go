// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, logging)
		s.fake.put("a", "web", "1")
		s.fake.put("other", "", "1")
		pass(time.Second)
		s.recorder.take()

		s.fake.put("b", "web", "1")
		s.fake.put("a", "web", "2")
		s.fake.put("a", "api", "2") // handed over
		s.fake.put("a", "", "3")    // the label is taken off
		s.fake.put("a", "web", "4")
		s.fake.delete("b")
		s.fake.put("b", "web", "5")
		s.fake.delete("other")
		synctest.Wait()
		want := []string{
			"seen b web 1", "seen a web 2", "gone a web", "seen a api 2", "gone a api", "seen a web 4", "gone b web", "seen b web 5",
		}
		if diff := cmp.Diff(want, s.recorder.take()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		s.assert(t)
	})
}

// TestGap deletes, creates and replaces objects while no client is connected, and makes the server
// forget that.
func TestGap(t *testing.T) {
	t.Parallel()
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgotten=%t", forget), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, logging)
				for _, name := range []string{"deleted", "replaced", "unlabelled", "handed-over", "changed", "kept"} {
					s.fake.put(name, "web", "1")
				}
				pass(time.Second)
				s.recorder.take()
				s.network.setDown(true)
				s.fake.delete("deleted")
				s.fake.delete("replaced")
				s.fake.put("replaced", "web", "2")
				s.fake.put("unlabelled", "", "1")
				s.fake.put("handed-over", "api", "1")
				s.fake.put("changed", "web", "2")
				s.fake.put("new", "web", "1")
				if forget {
					s.fake.forget()
				}
				pass(time.Minute)
				s.network.setDown(false)
				pass(time.Minute)
				s.assert(t)
				log := strings.Join(s.recorder.take(), "\n")
				if got := strings.Contains(log, "synced"); got != forget {
					t.Errorf("a new list: got %t, want %t; told:\n%s", got, forget, log)
				}
				if got, want := strings.Count(log, "gone "), 4; got != want {
					t.Errorf("told gone: got %d, want %d:\n%s", got, want, log)
				}
			})
		})
	}
}

// TestPages has a server without streaming lists.
func TestPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *subject, p *watch.Params) {
			p.Settings.PageSize, s.fake.paged = 3, true
			for i := range 10 {
				s.fake.put(fmt.Sprintf("a-%d", i), "web", "1")
			}
		})
		pass(time.Minute)
		s.assert(t)
		s.watcher.Relist()
		pass(time.Minute)
		s.fake.delete("a-3")
		synctest.Wait()
		s.assert(t)
		want := map[string]int{"stream": 1, "list": 8, "watch": 2}
		if diff := cmp.Diff(want, s.fake.served); diff != "" {
			t.Errorf("requests of two lists of 4 pages (-want +got):\n%s", diff)
		}
	})
}

// TestPageExpires has the server repeatedly forget a list's beginning before its end is requested.
func TestPageExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *subject, p *watch.Params) {
			p.Settings.PageSize, s.fake.paged = 2, true
			s.fake.pageEnd = func() {
				s.fake.pass()
				s.fake.forget()
			}
			for i := range 7 {
				s.fake.put(fmt.Sprintf("a-%d", i), "web", "1")
			}
		})
		pass(time.Minute)
		s.assert(t)
		if _, synced, _ := s.recorder.state(); synced != 1 {
			t.Errorf("lists: got %d, want one in the end", synced)
		}
	})
}

// TestSilence silences connections. The next one continues where the last one was.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.fake.put("a", "web", "1")
		pass(10 * time.Minute)
		before := s.fake.served["watch"]
		s.network.freeze()
		s.fake.put("a", "web", "2")
		pass(time.Minute)
		if s.difference() == "" {
			t.Fatal("the frozen connection went on")
		}
		pass(5 * time.Minute)
		s.assert(t)
		if _, synced, _ := s.recorder.state(); synced != 1 || s.fake.served["watch"] != before+1 {
			t.Errorf("got %d lists and requests %v, want one list, and one resumed watch", synced, s.fake.served)
		}
	})
}

// TestQuiet measures an hour without changes.
func TestQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		pass(time.Hour)
		if got := s.fake.served; got["stream"] != 1 || got["list"] != 0 || got["watch"] > 6 {
			t.Errorf("requests of an hour: got %v, want one stream and at most 6 watches", got)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		code       int
		reason     string
		after      string
		times      time.Duration // for how long it is refused
		most       int           // requests meanwhile
		recovered  time.Duration // within which it works again
		complaints int
	}{
		{"too many requests", 429, "TooManyRequests", "30", 5 * time.Minute, 10, 40 * time.Second, 1},
		{"server errors", 500, "InternalError", "", 10 * time.Minute, 200, 16 * time.Second, 1},
		{"forbidden", 403, "Forbidden", "", time.Hour, 80, 6 * time.Minute, 1},
		{"not watchable", 405, "MethodNotAllowed", "", time.Hour, 80, 6 * time.Minute, 1},
		{"expired all the time", 410, "Expired", "", 10 * time.Minute, 200, 16 * time.Second, 1},
		{"sent away for ever", 429, "TooManyRequests", "999999999999", time.Minute, 1, 6 * time.Minute, 0},
		{"a moment's error", 503, "ServiceUnavailable", "1", time.Second, 4, 3 * time.Second, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				s := start(t, func(_ *subject, p *watch.Params) {
					p.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
				})
				s.fake.put("a", "web", "1")
				pass(time.Second)
				requests := 0
				s.fake.mu.Lock()
				s.fake.refuse = func(*http.Request) *http.Response {
					requests++
					header := http.Header{}
					if test.after != "" {
						header.Set("Retry-After", test.after)
					}
					return &http.Response{StatusCode: test.code, Status: test.reason, Header: header}
				}
				s.fake.mu.Unlock()
				s.network.cut()
				pass(test.times)
				s.fake.put("a", "web", "2")
				s.fake.mu.Lock()
				s.fake.refuse = nil
				s.fake.mu.Unlock()
				if requests > test.most || requests == 0 {
					t.Errorf("requests while refused: got %d, want 1 to %d", requests, test.most)
				}
				pass(test.recovered)
				s.assert(t)
				if got := strings.Count(logs.String(), "level=WARN"); got != test.complaints || strings.Count(logs.String(), "\n") != 2*got {
					t.Errorf("logs: got\n%swant %d warnings, each with its end", &logs, test.complaints)
				}
			})
		})
	}
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(_ *subject, p *watch.Params) { p.Collection.Resource.Resource = "mills" })
		if err := <-s.ended; !errors.Is(err, watch.ErrAbsent) {
			t.Errorf("got %v, want %v", err, watch.ErrAbsent)
		}
		s.ended <- nil
	})
}

func TestRelist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, logging)
		s.fake.put("a", "web", "1")
		pass(time.Second)
		s.recorder.take()
		s.watcher.Relist()
		pass(time.Second)
		if diff := cmp.Diff([]string{"seen a web 1", "synced"}, s.recorder.take()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		// A list that is requested while the server is unreachable arrives when it is back.
		s.network.setDown(true)
		pass(time.Minute)
		s.watcher.Relist()
		pass(time.Minute)
		s.network.setDown(false)
		pass(time.Minute)
		if diff := cmp.Diff([]string{"seen a web 1", "synced"}, s.recorder.take()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// TestShortLives has connections that are all too short-lived for the whole list.
func TestShortLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *subject, p *watch.Params) {
			p.Settings.PageSize = 2
			s.network.setDoom(func() (int, bool) { return 1500, false })
			for i := range 40 {
				s.fake.put(fmt.Sprintf("a-%d", i), "web", "1")
			}
		})
		pass(2 * time.Minute)
		s.assert(t)
		if _, synced, _ := s.recorder.state(); synced != 1 {
			t.Errorf("lists: got %d, want one", synced)
		}
	})
}

// TestTooLarge has the server send an object over the limit, in an event and in a list.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, paged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *subject, p *watch.Params) { s.fake.paged, p.Settings.MaxObject = paged, 32<<10 })
			s.fake.put("a", "web", "1")
			pass(time.Second)
			s.fake.put("a", "web", strings.Repeat("x", 40<<10))
			pass(time.Minute)
			s.watcher.Relist()
			pass(time.Minute)
			if got, synced, _ := s.recorder.state(); got["a"].Value != "1" || synced != 1 {
				t.Errorf("paged=%t: got an object of %d bytes and %d lists, want neither", paged, len(got["a"].Value), synced-1)
			}
			s.fake.put("a", "web", "2")
			pass(time.Minute)
			s.assert(t)
		})
	}
}
