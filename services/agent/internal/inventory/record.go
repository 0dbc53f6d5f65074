// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
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
	// DependsOn names the services that have to go after this one, when they leave the plan together.
	DependsOn []string
	// Guarded is the spec digest of the run whose prune the guard stopped. Empty when the latest run was not stopped.
	Guarded string
	// Base is the number of objects after the latest complete run, which the guard measures against. A run that failed
	// half-way leaves more objects in the inventory than either state has, and must not soften the guard thereby.
	Base int
	// Applied is what the latest complete run applied. Zero before the first.
	Applied Applied
	// Touched tells that a later run has begun to change the cluster, and did not end well: the cluster then holds
	// neither what Applied says nor what is desired, and even a plan that goes back to Applied has to be applied.
	Touched bool
	// Objects are the objects in the cluster.
	Objects Set
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

// head is the JSON form of a Record without its objects.
type head struct {
	Format  int      `json:"format"`
	Service string   `json:"service"`
	Owner   string   `json:"owner,omitempty"`
	UID     string   `json:"uid,omitempty"`
	Prune   bool     `json:"prune,omitempty"`
	Needs   []string `json:"dependsOn,omitempty"`
	Guarded string   `json:"guarded,omitempty"`
	Base    int      `json:"base,omitempty"`
	Applied Applied  `json:"applied,omitzero"`
	Touched bool     `json:"touched,omitempty"`
	Hooks   Hooks    `json:"hooks,omitzero"`
	Tests   Tests    `json:"tests,omitzero"`
	Objects int      `json:"objects"` // how many; a missing shard is thereby noticed
}

const format = 1

// Encode turns r into a small JSON head and as many shards as needed for none to be longer than shardBytes. A shard is
// text, one object a line: "group/version/kind/namespace/name uid". At least one shard is returned.
func (r Record) Encode(shardBytes int) (head []byte, shards [][]byte, err error) {
	head, err = json.Marshal(r.head())
	if err != nil {
		return nil, nil, fmt.Errorf("encode inventory of %s: %w", r.Service, err)
	}
	var shard bytes.Buffer
	for _, o := range r.Objects.Objects() {
		line := o.encode() + " " + o.UID + "\n"
		if shard.Len() > 0 && shard.Len()+len(line) > shardBytes {
			shards = append(shards, bytes.Clone(shard.Bytes()))
			shard.Reset()
		}
		shard.WriteString(line)
	}
	return head, append(shards, bytes.Clone(shard.Bytes())), nil
}

func (r Record) head() head {
	return head{
		Format: format, Service: r.Service, Owner: r.Owner, UID: r.ServiceUID, Prune: r.Prune, Needs: r.DependsOn, Guarded: r.Guarded, Base: r.Base,
		Applied: r.Applied, Touched: r.Touched, Hooks: r.Hooks, Tests: r.Tests,
		Objects: r.Objects.Len(),
	}
}

// Decode reads what Encode wrote. Errors match ErrMalformed; a record that cannot be read completely is never returned
// in part, because a prune would act on the difference.
func Decode(encodedHead []byte, shards [][]byte) (Record, error) {
	var h head
	if err := json.Unmarshal(encodedHead, &h); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if h.Format != format {
		return Record{}, fmt.Errorf("%w: format %d, want %d", ErrMalformed, h.Format, format)
	}
	r := Record{Service: h.Service, Owner: h.Owner, ServiceUID: h.UID, Prune: h.Prune, DependsOn: h.Needs, Guarded: h.Guarded, Base: h.Base, Applied: h.Applied, Touched: h.Touched, Hooks: h.Hooks, Tests: h.Tests}
	for _, shard := range shards {
		if err := r.Objects.decode(string(shard)); err != nil {
			return Record{}, err
		}
	}
	if r.Objects.Len() != h.Objects {
		return Record{}, fmt.Errorf("%w: got %d objects, want %d", ErrMalformed, r.Objects.Len(), h.Objects)
	}
	return r, nil
}

func (s *Set) decode(shard string) error {
	for line := range strings.Lines(shard) {
		text, uid, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !found {
			return fmt.Errorf("%w: line %q, want an object and its uid", ErrMalformed, line)
		}
		ref, err := decodeRef(text)
		if err != nil {
			return err
		}
		s.Put(Object{Ref: ref, UID: uid})
	}
	return nil
}
