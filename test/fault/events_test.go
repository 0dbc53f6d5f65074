// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/redistest"
)

// The keys under which replicas publish events. Entries come in the order in which they were
// accepted.
const (
	eventsKey     = "leat:{gitcache}:events"
	eventsMetaKey = "leat:{gitcache}:events:meta"
)

// epochs checks the promise that no event of an older owner is accepted.
type epochs struct {
	highest map[string]uint64 // by UID of the repository
	last    map[string]string // the last inspected entry, by life of the log: a snapshot may restore an earlier one
	seen    int
}

func newEpochs() *epochs {
	return &epochs{highest: make(map[string]uint64), last: make(map[string]string)}
}

// check inspects the entries that were accepted since the last call.
func (e *epochs) check(t *testing.T, redis *redistest.Server) {
	t.Helper()
	client := redis.Client(t)
	meta, err := client.HGetAll(t.Context(), eventsMetaKey).Result() // empty if nothing was accepted since Redis lost its memory
	if err != nil {
		t.Fatalf("read events: %v", err)
	}
	generation := meta["generation"]
	after := cmp.Or(e.last[generation], "0")
	entries, err := client.XRange(t.Context(), eventsKey, "("+after, "+").Result()
	if err != nil {
		t.Fatalf("read events: %v", err)
	}
	for _, entry := range entries {
		var event struct {
			UID   string `json:"uid"`
			Epoch uint64 `json:"epoch"`
		}
		text, _ := entry.Values["event"].(string)
		_, text, _ = strings.Cut(text, " ") // the signature comes first
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatalf("read event %s: %v", entry.ID, err)
		}
		if event.Epoch < e.highest[event.UID] {
			t.Errorf("event %s of %s was accepted at epoch %d after one of epoch %d", entry.ID, event.UID, event.Epoch, e.highest[event.UID])
		}
		e.highest[event.UID] = max(e.highest[event.UID], event.Epoch)
		e.last[generation] = entry.ID
		e.seen++
	}
}
