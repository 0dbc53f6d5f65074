// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/quota"
)

// run runs a test in virtual time.
func run(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

func pass(d time.Duration) { <-time.After(d) }

// admit begins a request that is expected to be admitted.
func admit(t *testing.T, l *quota.Ledger, user, cluster string) *quota.Meter {
	t.Helper()
	m, err := l.Admit(user, cluster)
	if err != nil {
		t.Fatalf("Admit(%s, %s): %v", user, cluster, err)
	}
	t.Cleanup(m.Close)
	return m
}

// exceeded begins a request that is expected to be refused.
func exceeded(t *testing.T, l *quota.Ledger, user, cluster string) *quota.ExceededError {
	t.Helper()
	m, err := l.Admit(user, cluster)
	var e *quota.ExceededError
	if !errors.As(err, &e) {
		t.Fatalf("Admit(%s, %s): got %v %v, want an ExceededError", user, cluster, m, err)
	}
	return e
}

func TestUsedUpQuotaRefusesNewRequests(t *testing.T) {
	run(t, func(t *testing.T) {
		l := quota.New(quota.Params{UserBytes: 1000, ClusterBytes: 5000, Window: time.Hour})
		m := admit(t, l, "ada", "demo")
		if err := m.Add(999); err != nil {
			t.Fatal(err)
		}
		admit(t, l, "ada", "demo")
		if err := m.Add(1); err != nil {
			t.Fatalf("got %v, want what runs to go on", err)
		}
		if got := exceeded(t, l, "ada", "other"); got.Scope != quota.ScopeUser || got.Limit != 1000 {
			t.Errorf("got %+v, want the user's quota", got)
		}
		bob := admit(t, l, "bob", "demo")
		if err := bob.Add(900); err != nil {
			t.Fatal(err)
		}
		carol := admit(t, l, "carol", "demo")
		if err := carol.Add(999); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"d", "e", "f"} {
			if err := admit(t, l, name, "demo").Add(800); err != nil {
				t.Fatal(err)
			}
		}
		if got := exceeded(t, l, "bob", "demo"); got.Scope != quota.ScopeCluster || got.Limit != 5000 {
			t.Errorf("got %+v, want the cluster's quota", got)
		}
		admit(t, l, "bob", "other")
	})
}

func TestRunningRequestEndsWhenTheQuotaIsUsedUpTwice(t *testing.T) {
	run(t, func(t *testing.T) {
		l := quota.New(quota.Params{ClusterBytes: 1000})
		m := admit(t, l, "ada", "demo")
		if err := m.Add(1999); err != nil {
			t.Errorf("got %v, want it to go on", err)
		}
		var e *quota.ExceededError
		if err := m.Add(1); !errors.As(err, &e) || e.Scope != quota.ScopeCluster {
			t.Errorf("got %v, want the cluster's quota exceeded", err)
		}
		pass(61 * time.Minute)
		if err := m.Add(1); err != nil {
			t.Errorf("got %v after the window, want nil", err)
		}
	})
}

func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			window := time.Duration(1+random.IntN(7200)) * time.Second
			l := quota.New(quota.Params{UserBytes: 1000, Window: window})
			for {
				m, err := l.Admit("ada", "demo")
				if err != nil {
					break
				}
				_ = m.Add(random.Int64N(400))
				m.Close()
				pass(time.Duration(random.Int64N(int64(window / 8))))
			}
			wait := exceeded(t, l, "ada", "demo").RetryAfter
			if wait <= 0 || wait > window+window/60+time.Nanosecond*60 {
				t.Fatalf("seed %d: got to wait %v in a window of %v", seed, wait, window)
			}
			pass(wait - time.Nanosecond)
			if left := exceeded(t, l, "ada", "demo").RetryAfter; left != time.Nanosecond {
				t.Errorf("seed %d: got %v to wait, want 1ns", seed, left)
			}
			pass(time.Nanosecond)
			admit(t, l, "ada", "demo")
		})
	}
}

// TestWindowSlides compares with a list of everything that was added.
func TestWindowSlides(t *testing.T) {
	run(t, func(t *testing.T) {
		const limit, window = 1000, time.Hour
		random := rand.New(rand.NewPCG(3, 4))
		l := quota.New(quota.Params{UserBytes: limit, Window: window})
		m := admit(t, l, "ada", "demo") // the account is made now
		began := time.Now()
		type addition struct {
			at    time.Time
			bytes int64
		}
		var added []addition
		for range 3000 {
			pass(time.Duration(random.Int64N(int64(10 * time.Minute))))
			n := random.Int64N(200)
			_ = m.Add(n)
			added = append(added, addition{time.Now(), n})
			slot := window / 60
			oldest := began.Add(time.Since(began).Truncate(slot) - window)
			sum := int64(0)
			for _, a := range added {
				if !a.at.Before(oldest) {
					sum += a.bytes
				}
			}
			again, err := l.Admit("ada", "demo")
			again.Close()
			if got, want := err == nil, sum < limit; got != want {
				t.Fatalf("got admitted %v with %d bytes in the window, want %v", got, sum, want)
			}
		}
	})
}

func TestWithoutQuotasNothingIsCounted(t *testing.T) {
	run(t, func(t *testing.T) {
		l := quota.New(quota.Params{})
		m := admit(t, l, "ada", "demo")
		if err := m.Add(1 << 60); err != nil {
			t.Error(err)
		}
		admit(t, l, "ada", "demo")
		if got := l.Accounts(); got != 0 {
			t.Errorf("got %d accounts, want none", got)
		}
		var none *quota.Meter
		none.Close()
		if err := none.Add(1); err != nil {
			t.Error(err)
		}
	})
}

func TestWhoMovesNothingIsForgotten(t *testing.T) {
	run(t, func(t *testing.T) {
		l := quota.New(quota.Params{UserBytes: 1000, Window: time.Hour})
		running := admit(t, l, "runs for long", "demo")
		for i := range 100 {
			m := admit(t, l, fmt.Sprint("user", i), "demo")
			if err := m.Add(10); err != nil {
				t.Fatal(err)
			}
			m.Close()
			m.Close() // twice is once
		}
		pass(3 * time.Hour)
		admit(t, l, "ada", "demo")
		if got := l.Accounts(); got != 2 {
			t.Errorf("got %d accounts, want the one that runs and the new one", got)
		}
		if err := running.Add(1000); err != nil {
			t.Fatal(err)
		}
		exceeded(t, l, "runs for long", "demo")
	})
}

func TestManyCountAtOnce(t *testing.T) {
	t.Parallel()
	l := quota.New(quota.Params{UserBytes: 100_000, ClusterBytes: 100_001})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			m, err := l.Admit("ada", "demo")
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			for range 1999 {
				_ = m.Add(1)
			}
		})
	}
	group.Wait()
	m := admit(t, l, "ada", "demo")
	_ = m.Add(50)
	if got := exceeded(t, l, "ada", "demo"); got.Scope != quota.ScopeUser {
		t.Errorf("got %v, want the user's quota used up to the byte", got)
	}
}
