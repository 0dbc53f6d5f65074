// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// decider answers what a test wants and counts the questions.
type decider struct {
	mu     sync.Mutex
	answer policy.Decision
	err    error
	delay  time.Duration
	asked  int
}

func (d *decider) Check(ctx context.Context, _ policy.Question) (policy.Decision, error) {
	d.mu.Lock()
	d.asked++
	answer, err, delay := d.answer, d.err, d.delay
	d.mu.Unlock()
	if ended := backoff.Wait(ctx, delay); ended != nil {
		return policy.Decision{}, errors.Join(policy.ErrUnavailable, ended)
	}
	return answer, err
}

func (d *decider) set(change func(*decider)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

var question = policy.Question{Subject: "user:ada", Groups: []string{"a", "b"}, Cluster: "demo"}

// ask checks the decision and how often the decider was asked so far.
func ask(t *testing.T, cache *policy.Cache, d *decider, allowed bool, asked int) {
	t.Helper()
	got, err := cache.Check(t.Context(), question)
	if err != nil || got.Allowed != allowed {
		t.Errorf("got %v, %v, want allowed=%v", got, err, allowed)
	}
	d.set(func(d *decider) {
		if d.asked != asked {
			t.Errorf("asked %d times, want %d", d.asked, asked)
		}
	})
}

func wait(d time.Duration) { <-time.After(d) }

func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{answer: policy.Decision{Allowed: true, MaxAge: time.Hour}}
		cache := policy.NewCache(policy.DefaultCacheParams(d))
		ask(t, cache, d, true, 1)
		wait(29 * time.Second)
		ask(t, cache, d, true, 1)
		wait(time.Second) // 30 s are the most, whatever lifetime the answer has
		ask(t, cache, d, true, 2)
		d.set(func(d *decider) { d.answer = policy.Decision{Allowed: true, MaxAge: 2 * time.Second} })
		wait(30 * time.Second)
		ask(t, cache, d, true, 3)
		wait(2 * time.Second) // less counts
		d.set(func(d *decider) { d.answer = policy.Decision{} })
		ask(t, cache, d, false, 4)
		wait(4 * time.Second)
		ask(t, cache, d, false, 4)
		wait(time.Second) // a refusal lives 5 s
		d.set(func(d *decider) { d.answer = policy.Decision{Allowed: true} })
		ask(t, cache, d, true, 5)
	})
}

func TestStalePermissionCountsDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{answer: policy.Decision{Allowed: true}}
		cache := policy.NewCache(policy.DefaultCacheParams(d))
		ask(t, cache, d, true, 1)
		d.set(func(d *decider) { d.err = policy.ErrUnavailable })
		wait(time.Minute)
		ask(t, cache, d, true, 2)
		ask(t, cache, d, true, 2) // not asked again at once
		wait(2 * time.Second)
		ask(t, cache, d, true, 3)
		wait(4 * time.Minute) // five in all since the answer
		if _, err := cache.Check(t.Context(), question); !errors.Is(err, policy.ErrUnavailable) {
			t.Errorf("after five minutes: got %v, want ErrUnavailable", err)
		}
		d.set(func(d *decider) { d.err, d.answer = nil, policy.Decision{} })
		ask(t, cache, d, false, 5)
		d.set(func(d *decider) { d.err = policy.ErrUnavailable })
		wait(6 * time.Second) // a refusal is never used stale
		if _, err := cache.Check(t.Context(), question); !errors.Is(err, policy.ErrUnavailable) {
			t.Errorf("old refusal: got %v, want ErrUnavailable", err)
		}
	})
}

func TestSilentDeciderCostsPatienceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{answer: policy.Decision{Allowed: true}}
		cache := policy.NewCache(policy.DefaultCacheParams(d))
		ask(t, cache, d, true, 1)
		d.set(func(d *decider) { d.delay = time.Hour })
		wait(time.Minute)
		began := time.Now()
		ask(t, cache, d, true, 2)
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want the patience of 1 s", took)
		}
		began = time.Now()
		other := policy.Question{Subject: "user:bob", Cluster: "demo"}
		if _, err := cache.Check(t.Context(), other); !errors.Is(err, policy.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %v, want the timeout of 5 s", took)
		}
	})
}

func TestOneQuestionForManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{answer: policy.Decision{Allowed: true}, delay: time.Second}
		cache := policy.NewCache(policy.DefaultCacheParams(d))
		first, giveUp := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := cache.Check(first, question); !errors.Is(err, context.Canceled) {
				t.Errorf("first caller: got %v, want canceled", err)
			}
		})
		synctest.Wait()
		for range 100 {
			callers.Go(func() { ask(t, cache, d, true, 1) })
		}
		synctest.Wait()
		giveUp() // the first caller's end does not take the answer from the others
		callers.Wait()
	})
}

func TestQuestionsAreNotConfused(t *testing.T) {
	d := &decider{answer: policy.Decision{Allowed: true}}
	cache := policy.NewCache(policy.DefaultCacheParams(d))
	questions := []policy.Question{
		{Subject: "user:a", Cluster: "bc"},
		{Subject: "user:ab", Cluster: "c"},
		{Subject: "user:a", Cluster: "b", Groups: []string{"c", "d"}},
		{Subject: "user:a", Cluster: "b", Groups: []string{"cd"}},
		{Subject: "user:a", Cluster: "b", Groups: []string{"c"}},
		{Subject: "user:a", Cluster: "b"},
	}
	for range 2 {
		for _, q := range questions {
			if _, err := cache.Check(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	same := policy.Question{Subject: "user:a", Cluster: "b", Groups: []string{"d", "c", "d"}}
	if _, err := cache.Check(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	if d.asked != len(questions) {
		t.Errorf("asked %d times, want %d", d.asked, len(questions))
	}
}

// TestSecRefusalsPushOutNoPermissions has a user ask about many clusters that do not exist, and
// then stops the decider.
func TestSecRefusalsPushOutNoPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{answer: policy.Decision{Allowed: true}}
		params := policy.DefaultCacheParams(d)
		params.Size = 10
		cache := policy.NewCache(params)
		ask(t, cache, d, true, 1)
		d.set(func(d *decider) { d.answer = policy.Decision{} })
		for i := range 100 {
			q := policy.Question{Subject: "user:eve", Cluster: strconv.Itoa(i)}
			if got, err := cache.Check(t.Context(), q); err != nil || got.Allowed {
				t.Fatalf("got %v, %v, want a refusal", got, err)
			}
		}
		d.set(func(d *decider) { d.err = policy.ErrUnavailable })
		wait(time.Minute)
		if got, err := cache.Check(t.Context(), question); err != nil || !got.Allowed {
			t.Errorf("got %v, %v, want the permission of before to count", got, err)
		}
	})
}

func TestSizeIsBounded(t *testing.T) {
	d := &decider{answer: policy.Decision{Allowed: true}}
	params := policy.DefaultCacheParams(d)
	params.Size = 10
	cache := policy.NewCache(params)
	check := func(i int) {
		t.Helper()
		if _, err := cache.Check(t.Context(), policy.Question{Subject: fmt.Sprint(i), Cluster: "demo"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 11 {
		check(0) // stays, because it is used
		check(i)
	}
	check(0)
	check(10)
	if d.asked != 11 {
		t.Errorf("asked %d times, want 11", d.asked)
	}
	check(1) // the least recently used went
	if d.asked != 12 {
		t.Errorf("asked %d times, want 12", d.asked)
	}
}

// TestPermissionOfAnEarlierEnrolmentIsAskedAgain asks before the agent enrolled, and again once it
// is connected.
func TestPermissionOfAnEarlierEnrolmentIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decider{answer: policy.Decision{Allowed: true, ClusterUID: "before"}}
		cache := policy.NewCache(policy.DefaultCacheParams(d))
		check := func(connected, wantUID string, wantAsked int) {
			t.Helper()
			q := question
			q.ConnectedUID = connected
			got, err := cache.Check(t.Context(), q)
			if err != nil || got.ClusterUID != wantUID {
				t.Errorf("got %q, %v, want %q", got.ClusterUID, err, wantUID)
			}
			if d.asked != wantAsked {
				t.Errorf("asked %d times, want %d", d.asked, wantAsked)
			}
		}
		check("", "before", 1)
		d.set(func(d *decider) { d.answer.ClusterUID = "after" })
		check("", "before", 1)
		check("after", "before", 1) // given this very moment
		time.Sleep(time.Second)
		check("after", "after", 2)
		check("after", "after", 2)
		time.Sleep(time.Second)
		check("withdrawn", "after", 3)
		check("withdrawn", "after", 3) // no storm of questions
	})
}
