// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/syncpolicy"
)

// ErrMalformed is matched by errors about a stored record that cannot be read.
var ErrMalformed = errors.New("malformed inventory")

// Record is what is kept about one service across restarts: its objects, and what they were made from.
type Record struct {
	// Service is the service's name.
	Service string
	// Owner is the uid that the hub gave the cluster. Another one's agent takes the record over when its own plan names
	// the service, and otherwise leaves it alone.
	Owner string
	// ServiceUID is the uid that the hub gave the service.
	ServiceUID string
	// Prune tells whether the objects are to be deleted when the service leaves the plan.
	Prune bool
	// Account is the service account, namespace/name, as which everything was applied, and is deleted. Empty: the agent itself.
	Account string
	// Deletion says how they go then.
	Deletion syncpolicy.Deletion
	// DependsOn names the services that have to go after this one, when they leave the plan together.
	DependsOn []string
	// Guarded is the Digest of the objects that the guard kept from being deleted in the latest run. Empty when it was not
	// stopped.
	Guarded string
	// Base is the number of objects after the latest complete run, which the guard measures against. A run that failed
	// half-way leaves more objects in the inventory than either state has, and must not soften the guard thereby.
	Base int
	// Pruned is how many objects were deleted since then without anybody's agreement: several runs that fail must not
	// together delete what one would be stopped for.
	Pruned int
	// Applied is what the latest complete run applied. Zero before the first.
	Applied Applied
	// Entry is the plan's entry that Applied was made of, in whatever form the reconciler gives it: where the next one has to wait,
	// this is what drift is put right by. Empty: unknown.
	Entry json.RawMessage
	// Touched tells that a later run has begun to change the cluster, and did not end well: the cluster then holds
	// neither what Applied says nor what is desired, and even a plan that goes back to Applied has to be applied.
	Touched bool
	// Objects are the objects in the cluster.
	Objects Set
	// Once are those of them that run once, by key.
	Once []Once
	// Hooks are what was run around them.
	Hooks Hooks
	// Tests are what was run to see whether they work.
	Tests Tests
	// Confirmed tells that a person marked the stored record: the service may go, however many leave the plan with it. It
	// is read and never written.
	Confirmed bool
}

// Applied names the inputs of a complete run. Equal inputs need no second run.
type Applied struct {
	SpecDigest   string        `json:"spec,omitempty"`
	ConfigDigest string        `json:"config,omitempty"`
	SyncRequest  string        `json:"sync,omitempty"`
	Digests      []string      `json:"digests,omitempty"` // of the bundles, in the order of the sources
	Commits      []string      `json:"commits,omitempty"` // in the same order
	At           time.Time     `json:"at,omitzero"`       // when the run ended
	Took         time.Duration `json:"took,omitempty"`    // from the plan's arrival
}

// Inputs returns a without the time and duration of its run.
func (a Applied) Inputs() Applied {
	a.At, a.Took = time.Time{}, 0
	return a
}

// SameInputs reports whether a second run would do what the first did. Commits do not count: one
// that does not touch the folder changes nothing.
func (a Applied) SameInputs(b Applied) bool {
	return a.SyncRequest == b.SyncRequest && a.SameContent(b)
}

// SameContent reports whether both come from the same content, whoever requested the run.
func (a Applied) SameContent(b Applied) bool {
	return a.SpecDigest == b.SpecDigest && a.ConfigDigest == b.ConfigDigest && slices.Equal(a.Digests, b.Digests)
}

// Equal compares all fields by value, times with time.Time.Equal.
func (a Applied) Equal(b Applied) bool {
	return a.SameInputs(b) && slices.Equal(a.Commits, b.Commits) && a.At.Equal(b.At) && a.Took == b.Took
}

// head is the JSON form of a Record without its objects.
type head struct {
	Format   int                 `json:"format"`
	Service  string              `json:"service"`
	Owner    string              `json:"owner,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Prune    bool                `json:"prune,omitempty"`
	Deletion syncpolicy.Deletion `json:"deletion,omitzero"`
	Account  string              `json:"account,omitempty"`
	Needs    []string            `json:"dependsOn,omitempty"`
	Guarded  string              `json:"guarded,omitempty"`
	Base     int                 `json:"base,omitempty"`
	Pruned   int                 `json:"pruned,omitempty"`
	Applied  Applied             `json:"applied,omitzero"`
	Entry    json.RawMessage     `json:"entry,omitempty"`
	Touched  bool                `json:"touched,omitempty"`
	Once     []Once              `json:"once,omitempty"`
	Hooks    Hooks               `json:"hooks,omitzero"`
	Tests    Tests               `json:"tests,omitzero"`
	Objects  int                 `json:"objects"` // how many; a missing shard is thereby noticed
}

// The formats that can be read; the latter is written. They differ in the shards.
const (
	formatLines  = 1
	formatShards = 2
)

// Encode turns r into a small JSON head, and its objects into shards: an object stands in the same one as long as the number
// of shards stays the same, so that a change of one object changes one shard. A service of up to ShardObjects objects has one.
func (r Record) Encode() (head []byte, shards [][]byte, err error) {
	head, err = json.Marshal(r.head())
	if err != nil {
		return nil, nil, fmt.Errorf("encode inventory of %s: %w", r.Service, err)
	}
	return head, r.Objects.shards(), nil
}

func (r Record) head() head {
	return head{
		Format: formatShards, Service: r.Service, Owner: r.Owner, UID: r.ServiceUID, Prune: r.Prune, Deletion: r.Deletion, Account: r.Account, Needs: r.DependsOn,
		Guarded: r.Guarded, Base: r.Base, Pruned: r.Pruned, Applied: r.Applied, Entry: r.Entry, Touched: r.Touched, Once: r.Once, Hooks: r.Hooks, Tests: r.Tests,
		Objects: r.Objects.Len(),
	}
}

func (h head) record() Record {
	return Record{
		Service: h.Service, Owner: h.Owner, ServiceUID: h.UID, Prune: h.Prune, Deletion: h.Deletion, Account: h.Account, DependsOn: h.Needs,
		Guarded: h.Guarded, Base: h.Base, Pruned: h.Pruned, Applied: h.Applied, Entry: h.Entry, Touched: h.Touched, Once: h.Once, Hooks: h.Hooks, Tests: h.Tests,
	}
}

// Decode reads what Encode wrote, in this version or an earlier one. Errors match ErrMalformed; a record that cannot be read
// completely is never returned in part, because a prune would act on the difference.
func Decode(encodedHead []byte, shards [][]byte) (Record, error) {
	var h head
	if err := json.Unmarshal(encodedHead, &h); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := h.record()
	read := r.Objects.readShard
	switch h.Format {
	case formatShards:
	case formatLines:
		read = r.Objects.readLines
	default:
		return Record{}, fmt.Errorf("%w: format %d, want at most %d", ErrMalformed, h.Format, formatShards)
	}
	for _, shard := range shards {
		if err := read(string(shard)); err != nil {
			return Record{}, err
		}
	}
	if r.Objects.Len() != h.Objects {
		return Record{}, fmt.Errorf("%w: got %d objects, want %d", ErrMalformed, r.Objects.Len(), h.Objects)
	}
	return r, nil
}
