// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
)

// crowd counts the callers that a gate saw, by the second of their coming.
type crowd struct {
	mu       sync.Mutex
	came, in map[int]int
	last     time.Duration
}

func (c *crowd) note(at time.Duration, in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := int(at / time.Second)
	c.came[second]++
	if in {
		c.in[second]++
		c.last = max(c.last, at)
	}
}

// come has n callers come to the gate within the time, each as often as it takes, obeying what it
// is told.
func come(t *testing.T, gate *admission.Gate, n int, within time.Duration) *crowd {
	t.Helper()
	c := &crowd{came: map[int]int{}, in: map[int]int{}}
	began := time.Now()
	var coming sync.WaitGroup
	for range n {
		coming.Go(func() {
			if within > 0 {
				<-time.After(rand.N(within))
			}
			_ = backoff.Retry(t.Context(), backoff.Policy{Initial: 500 * time.Millisecond}, func(context.Context) error {
				wait, ok := gate.Enter()
				c.note(time.Since(began), ok)
				if ok {
					return nil
				}
				return backoff.RetryAfter(errors.New("told to wait"), wait)
			})
		})
	}
	coming.Wait()
	return c
}

// TestAStormOfReconnectsIsSpread has ten thousand agents lose their hub at the same instant.
func TestAStormOfReconnectsIsSpread(t *testing.T) {
	for name, within := range map[string]time.Duration{"at the same instant": 0, "within three seconds": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const agents, rate, burst = 10_000, 500, 2_500
				c := come(t, admission.NewGate(rate), agents, within)
				// No caller can be faster than the rate allows, and a little more is lost to jitter.
				fastest := (agents - burst) / rate * time.Second
				if c.last < fastest-time.Second || c.last > 2*fastest {
					t.Errorf("the last one is in after %s, want %s to %s", c.last, fastest, 2*fastest)
				}
				attempts, in := 0, 0
				for _, second := range slices.Sorted(maps.Keys(c.came)) {
					n := c.came[second]
					attempts, in = attempts+n, in+c.in[second]
					if most := burst + (second+1)*rate; in > most {
						t.Errorf("%d are let in by the end of second %d, want %d at most", in, second, most)
					}
					// A caller that comes late in one second leaves room in the next, so a tenth is allowed over
					// several.
					const several = 5
					lately := 0
					for s := second - several + 1; s <= second; s++ {
						lately += c.in[s]
					}
					if second >= 4+several && lately > several*(rate+rate/10) {
						t.Errorf("%d are let in during the %d seconds up to %d, want the rate", lately, several, second)
					}
					if second > 4 && n > 2*rate {
						t.Errorf("%d come during second %d, want them spread", n, second)
					}
				}
				if attempts > 3*agents {
					t.Errorf("got %d attempts of %d agents, want most to be let in when they were told to come", attempts, agents)
				}
			})
		})
	}
}

// TestALineIsBounded has more come than can be let in soon: no caller is told to wait for hours.
func TestALineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := admission.NewLine(10)
		early, late := 0, 0
		for range 10_000 {
			switch wait := line.Next(); {
			case wait <= 0 || wait > 66*time.Second:
				t.Fatalf("got %s, want more than nothing and about a minute at the most", wait)
			case wait < 30*time.Second:
				early++
			default:
				late++
			}
		}
		if early < 200 || early > 400 || late < 9_000 {
			t.Errorf("got %d told to wait for less than half a minute and %d for more, want some 300 early", early, late)
		}
		<-time.After(2 * time.Minute)
		if wait := line.Next(); wait > time.Second {
			t.Errorf("got %s after the line was gone, want the next slot", wait)
		}
	})
}

func TestSeats(t *testing.T) {
	t.Parallel()
	seats := admission.NewSeats(2)
	first, _ := seats.Take("one")
	if _, ok := seats.Take("one"); !ok {
		t.Error("refused the second of two")
	}
	if _, ok := seats.Take("one"); ok {
		t.Error("gave a third of two")
	}
	if _, ok := seats.Take("two"); !ok {
		t.Error("refused somebody else")
	}
	first()
	if _, ok := seats.Take("one"); !ok {
		t.Error("refused the one that was given back")
	}
}

// TestSecPaceIsPerHolder enters without end as one holder, and then once as another.
func TestSecPaceIsPerHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := admission.NewPace(time.Second, 10)
		come := func(times int) (in int) {
			for range times {
				switch wait, ok := pace.Enter("hostile"); {
				case ok:
					in++
				case wait <= 0:
					t.Fatal("refused without a time at which to come again")
				}
			}
			return in
		}
		if in := come(1000); in != 10 {
			t.Errorf("%d came in at once, want 10", in)
		}
		for range 100 {
			<-time.After(time.Second) // virtual
			if in := come(100); in != 1 {
				t.Errorf("%d came in within a second, want 1", in)
			}
		}
		if _, ok := pace.Enter("honest"); !ok {
			t.Error("another one was refused")
		}
		<-time.After(time.Minute) // virtual
		if in := come(1000); in != 10 {
			t.Errorf("%d came in after a quiet time, want 10", in)
		}
	})
}
