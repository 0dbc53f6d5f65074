// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rotation_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
)

var policy = rotation.Policy{Every: 30 * 24 * time.Hour, Lead: 15 * time.Minute, Overlap: 24 * time.Hour}

func made(t interface{ Fatal(...any) }, at time.Time) rotation.SigningKey {
	key, err := rotation.MakeSigningKey(at)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestScheduled(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := made(t, start)
	for _, before := range []time.Duration{0, time.Hour, policy.Every - policy.Lead - time.Second} {
		if keys, changed, err := policy.Scheduled([]rotation.SigningKey{first}, start.Add(before)); changed || err != nil || len(keys) != 1 {
			t.Errorf("after %v: got %d keys, changed %t, %v, want nothing to do", before, len(keys), changed, err)
		}
	}
	due := start.Add(policy.Every - policy.Lead)
	keys, changed, err := policy.Scheduled([]rotation.SigningKey{first}, due)
	if err != nil || !changed || len(keys) != 2 {
		t.Fatalf("got %d keys, changed %t, %v, want a second key", len(keys), changed, err)
	}
	if !keys[1].SignsAt.Equal(start.Add(policy.Every)) || !keys[0].EndsAt.Equal(keys[1].SignsAt.Add(policy.Overlap)) || !keys[1].EndsAt.IsZero() {
		t.Errorf("got times %v, %v, want the lead before and the overlap after", keys[0], keys[1])
	}
	if _, changed, _ := policy.Scheduled(slices.Clone(keys), keys[0].EndsAt.Add(-time.Second)); changed {
		t.Error("a key was dropped before its end")
	}
	if kept, changed, _ := policy.Scheduled(slices.Clone(keys), keys[0].EndsAt); !changed || len(kept) != 1 || kept[0].ID != keys[1].ID {
		t.Errorf("got %d keys, changed %t, want the second alone", len(kept), changed)
	}
	never := rotation.Policy{Lead: policy.Lead, Overlap: policy.Overlap}
	if _, changed, _ := never.Scheduled([]rotation.SigningKey{first}, start.Add(100*policy.Every)); changed {
		t.Error("a key was replaced without a schedule")
	}
}

func TestRotateWaitsForTheLastKey(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	keys, changed, err := policy.Rotate([]rotation.SigningKey{made(t, start)}, start)
	if err != nil || !changed || len(keys) != 2 {
		t.Fatalf("got %d keys, changed %t, %v", len(keys), changed, err)
	}
	if _, _, err := policy.Rotate(keys, start.Add(policy.Lead-time.Second)); !errors.Is(err, rotation.ErrUnfinished) {
		t.Errorf("got %v, want %v", err, rotation.ErrUnfinished)
	}
	if _, changed, err := policy.Rotate(keys, start.Add(policy.Lead)); err != nil || !changed {
		t.Errorf("got %t, %v, want a third key", changed, err)
	}
}

// TestTokensOutliveNoKey tries random times and rotations: whatever signs is published for the lead
// before, and for the overlap after its last signature.
func TestTokensOutliveNoKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		keys := []rotation.SigningKey{made(t, now)}
		published, lastSigned := map[string]time.Time{keys[0].ID: {}}, map[string]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*24*time.Hour)).Draw(t, "passes")))
			decide := policy.Scheduled
			if rapid.Bool().Draw(t, "asked") {
				decide = policy.Rotate
			}
			if after, changed, err := decide(slices.Clone(keys), now); changed {
				keys = after
			} else if err != nil && !errors.Is(err, rotation.ErrUnfinished) {
				t.Fatal(err)
			}
			signer := keys[0]
			for _, key := range keys {
				if _, ok := published[key.ID]; !ok {
					published[key.ID] = now
				}
				if !key.SignsAt.After(now) {
					signer = key
				}
			}
			if since := published[signer.ID]; !since.IsZero() && now.Sub(since) < policy.Lead {
				t.Fatalf("key %s signs %v after it was published", signer.ID, now.Sub(since))
			}
			lastSigned[signer.ID] = now
			for id, at := range lastSigned {
				there := slices.ContainsFunc(keys, func(key rotation.SigningKey) bool { return key.ID == id })
				if !there && now.Sub(at) < policy.Overlap {
					t.Fatalf("key %s was dropped %v after it signed", id, now.Sub(at))
				}
			}
			if len(keys) > 10+int(policy.Overlap/policy.Lead) {
				t.Fatalf("got %d keys", len(keys))
			}
		}
	})
}
