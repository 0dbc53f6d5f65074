// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
)

// TestChangesInQuickSuccessionAreSentTogether has a change every 10 ms for a second, and a last one a minute later.
func TestChangesInQuickSuccessionAreSentTogether(t *testing.T) {
	for name, test := range map[string]struct {
		pause func() time.Duration
		want  []time.Duration
	}{
		"a pause of a quarter of a second": {
			func() time.Duration { return 250 * time.Millisecond },
			[]time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second, time.Minute},
		},
		"no pause": {func() time.Duration { return 0 }, nil},
		"none set": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				changes, begun := wake.NewSignal(), time.Now()
				var made, sent []time.Duration
				stream := &wire.Stream{
					Ready: changes,
					Changed: func() error {
						sent = append(sent, time.Since(begun))
						return nil
					},
					Pause: test.pause,
					Beat:  func() error { return nil },
				}
				ended := make(chan error, 1)
				go func() { ended <- stream.Run(ctx) }()
				change := func() {
					made = append(made, time.Since(begun))
					changes.Set()
					synctest.Wait()
				}
				for range 100 {
					change()
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(time.Minute - time.Second)
				change()
				want := test.want
				if want == nil {
					want = made
				}
				if !slices.Equal(sent, want) {
					t.Errorf("got changes sent after %v, want %v", sent, want)
				}
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the end of the context", err)
				}
			})
		})
	}
}

// TestAPauseDelaysNothingElse has a stream beat, ask the caller to leave, and end with its token, while its changes wait.
func TestAPauseDelaysNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes, begun, beats := wake.NewSignal(), time.Now(), 0
		changes.Set()
		stream := &wire.Stream{
			Expires: begun.Add(90 * time.Second), Ready: changes,
			Changed: func() error { return nil }, Pause: func() time.Duration { return time.Hour },
			Beat: func() error {
				beats++
				return nil
			},
		}
		if err := stream.Run(t.Context()); err == nil || time.Since(begun) != 90*time.Second || beats < 3 {
			t.Errorf("got %v after %v and %d beats, want the end of the token after 90 s, and a beat every 20 s", err, time.Since(begun), beats)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		changes, failure := wake.NewSignal(), errors.New("drained")
		changes.Set()
		stream := &wire.Stream{
			Ready: changes, Changed: func() error { return nil }, Pause: func() time.Duration { return time.Hour },
			Beat: func() error { return nil }, Leave: func() bool { return true }, Drain: func() error { return failure },
		}
		if err := stream.Run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("got %v, want the caller asked to leave at the first beat", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		changes, failure := wake.NewSignal(), errors.New("the caller is gone")
		changes.Set()
		stream := &wire.Stream{Ready: changes, Changed: func() error { return failure }, Pause: func() time.Duration { return time.Hour }}
		if err := stream.Run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("got %v, want the error of the change at once", err)
		}
	})
}
