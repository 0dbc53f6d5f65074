// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/admission"
)

func TestNewJoinToken(t *testing.T) {
	t.Parallel()
	a, b := admission.NewJoinToken(), admission.NewJoinToken()
	if a == b || !strings.HasPrefix(a, admission.JoinTokenPrefix) || len(a) < len(admission.JoinTokenPrefix)+43 {
		t.Errorf("got %s and %s, want two tokens of 256 bits", a, b)
	}
	if string(admission.Hash(a)) == string(admission.Hash(b)) || len(admission.Hash(a)) != 32 {
		t.Error("hashes do not tell tokens apart")
	}
}

func TestIdentityUID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, uid := range []string{"a", "b"} {
		for generation := range int64(3) {
			seen[admission.IdentityUID(uid, generation)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("got %v, want one for each cluster and generation", seen)
	}
}

func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admission.NewReplay(time.Minute)
		for age := time.Duration(0); age < 10*time.Minute; age += 45 * time.Second {
			id := fmt.Sprint(age)
			if _, err := r.Spend("uid", id); err != nil {
				t.Errorf("%s: the first use was refused: %v", id, err)
			}
			if _, err := r.Spend("another uid", id); err != nil {
				t.Errorf("%s: refused because another cluster used the same id: %v", id, err)
			}
			<-time.After(time.Minute - time.Nanosecond) // virtual
			if _, err := r.Spend("uid", id); !errors.Is(err, admission.ErrReplayed) {
				t.Errorf("%s: got %v for a replay within its life, want %v", id, err, admission.ErrReplayed)
			}
		}
	})
}

// TestSecReplayMemoryIsPerCluster spends assertions without end as one agent, while another agent
// renews its token.
func TestSecReplayMemoryIsPerCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admission.NewReplay(2 * time.Minute)
		spend := func(assertions int) (accepted int) {
			for range assertions {
				switch wait, err := r.Spend("hostile", rand.Text()); {
				case err == nil:
					accepted++
				case !errors.Is(err, admission.ErrTooOften) || wait <= 0:
					t.Fatalf("got %s, %v, want to be told when to come again", wait, err)
				}
			}
			return accepted
		}
		// An earlier Replay had room for 200,000 assertions of the whole fleet.
		if n := spend(200_000); n < 10 || n > 100 {
			t.Errorf("%d assertions of one agent were accepted at once, want some tens", n)
		}
		for i := range 10 {
			<-time.After(time.Minute) // virtual
			spend(2000)
			if held := r.Held(); held > 200 {
				t.Fatalf("holds %d assertions of one agent, want at most 200", held)
			}
			if _, err := r.Spend("honest", fmt.Sprint(i)); err != nil {
				t.Errorf("an honest agent was refused: %v", err)
			}
		}
		<-time.After(10 * time.Minute) // virtual
		if _, err := r.Spend("hostile", "later"); err != nil {
			t.Errorf("refused after a quiet time: %v", err)
		}
		if held := r.Held(); held != 1 {
			t.Errorf("holds %d assertions, want those that have ended to be forgotten", held)
		}
	})
}

// TestSecReplaysAreNotCharged presents a used assertion again and again, as a thief would. The
// cluster's rate is not charged.
func TestSecReplaysAreNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admission.NewReplay(2 * time.Minute)
		if _, err := r.Spend("uid", "stolen"); err != nil {
			t.Fatal(err)
		}
		for range 10_000 {
			if _, err := r.Spend("uid", "stolen"); !errors.Is(err, admission.ErrReplayed) {
				t.Fatalf("got %v, want %v", err, admission.ErrReplayed)
			}
		}
		if _, err := r.Spend("uid", "the agent's next"); err != nil {
			t.Errorf("the agent was refused: %v", err)
		}
	})
}
