// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Record is the state of one service that survives restarts: its objects, and the inputs they were
// made from.
type Record struct {
	// Service is the service's name.
	Service string `json:"service"`
	// Owner is the uid that the hub gave the cluster. The agent of a cluster with another uid takes
	// the record over if its own plan names the service, and otherwise ignores it.
	Owner string `json:"owner,omitempty"`
	// ServiceUID is the uid that the hub gave the service.
	ServiceUID string `json:"uid,omitempty"`
	// Prune is set if the objects are to be deleted when the service leaves the plan.
	Prune bool `json:"prune,omitempty"`
	// Account is the service account, namespace/name, that applied everything and deletes it.
	// Empty: the agent itself.
	Account string `json:"account,omitempty"`
	// Deletion is how the objects are deleted then.
	Deletion syncpolicy.Deletion `json:"deletion,omitzero"`
	// DependsOn names the services that are removed after this one, if they leave the plan
	// together.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Guarded is the Digest of the objects that the guard kept from being deleted in the latest
	// run, or empty if it stopped nothing.
	Guarded string `json:"guarded,omitempty"`
	// Base is the number of objects after the latest complete run, which the guard uses as its
	// base. A run that failed half-way leaves more objects in the inventory than either state has,
	// and must not weaken the guard.
	Base int `json:"base,omitempty"`
	// Pruned is the number of objects deleted since then without a person's agreement. Several
	// failing runs must not together delete what the guard would not allow one run to delete.
	Pruned int `json:"pruned,omitempty"`
	// Applied are the inputs of the latest complete run. It is zero before the first.
	Applied Applied `json:"applied,omitzero"`
	// Entry is the plan's entry that Applied was made from, in the reconciler's own encoding. While
	// the next entry has to wait, the agent uses this one to correct drift. Empty: unknown.
	Entry json.RawMessage `json:"entry,omitempty"`
	// Rendered holds the latest render's results besides objects.
	Rendered
	// Touched means that a later run has begun to change the cluster, and did not succeed. The
	// cluster then matches neither Applied nor the desired state, and even a plan that returns to
	// Applied has to be applied.
	Touched bool `json:"touched,omitempty"`
	// Objects are the objects in the cluster.
	Objects Set `json:"-"`
	// Once are the objects that run once, sorted by key.
	Once []Once `json:"once,omitempty"`
	// Hooks is the state of the service's hooks.
	Hooks Hooks `json:"hooks,omitzero"`
	// Tests is the state of the service's tests.
	Tests Tests `json:"tests,omitzero"`
	// Confirmed means that a person marked the stored record: the service may be removed, however
	// many leave the plan with it. The agent reads this and never writes it.
	Confirmed bool `json:"-"`
}

// NeedsAccount reports whether the removal of the service changes the cluster: it has objects, or
// hooks that run or are deleted.
func (r Record) NeedsAccount() bool {
	return r.Objects.Len() > 0 || len(r.Hooks.Objects) > 0 || len(r.Hooks.DeleteHooks) > 0 || len(r.Tests.Objects) > 0
}

// Rendered holds a render's results besides objects.
type Rendered struct {
	// AsksFacts means that the same inputs may make other objects: templates read facts of the
	// cluster, or have made certificates, which are made again before they end.
	AsksFacts bool `json:"asksFacts,omitempty"`
	// HasGenerated means that templates have generated values, which are kept for the service and
	// deleted with it.
	HasGenerated bool `json:"generated,omitempty"`
	// Warnings are the latest render's warnings, as they are reported.
	Warnings []string `json:"warnings,omitempty"`
}

// Applied identifies the inputs of a complete run. Equal inputs need no second run.
type Applied struct {
	SpecDigest   string   `json:"spec,omitempty"`
	ConfigDigest string   `json:"config,omitempty"`
	SyncRequest  string   `json:"sync,omitempty"`
	Digests      []string `json:"digests,omitempty"` // of the bundles, in the order of the sources
	Commits      []string `json:"commits,omitempty"` // in the same order
	// Versions are in the same order; nil if no source has one.
	Versions []string      `json:"versions,omitempty"`
	At       time.Time     `json:"at,omitzero"`    // when the run ended
	Took     time.Duration `json:"took,omitempty"` // from the plan's arrival
	// First means that no other content was applied completely before.
	First bool `json:"first,omitempty"`
}

// Inputs returns a without the facts of its run.
func (a Applied) Inputs() Applied {
	a.At, a.Took, a.First = time.Time{}, 0, false
	return a
}

// Installs reports whether to apply next is to install the service, and not to upgrade it: nothing
// else was applied completely before. To apply the first content again does not make it an upgrade.
func (a Applied) Installs(next Applied) bool {
	return a.At.IsZero() || a.First && a.SameContent(next)
}

// SameInputs reports whether a second run would do what the first did. Commits and versions do not
// count: a commit that does not touch the selected files changes nothing.
func (a Applied) SameInputs(b Applied) bool {
	return a.SyncRequest == b.SyncRequest && a.SameContent(b)
}

// SameContent reports whether both come from the same content, even if different requests started
// the runs.
func (a Applied) SameContent(b Applied) bool {
	return a.SpecDigest == b.SpecDigest && a.ConfigDigest == b.ConfigDigest && slices.Equal(a.Digests, b.Digests)
}

// Equal compares all fields by value, times with time.Time.Equal.
func (a Applied) Equal(b Applied) bool {
	return a.SameInputs(b) && slices.Equal(a.Commits, b.Commits) && slices.Equal(a.Versions, b.Versions) && a.At.Equal(b.At) && a.Took == b.Took && a.First == b.First
}

// head is the JSON form of a Record without its objects.
type head struct {
	Format int `json:"format"`
	Record
	Objects int `json:"objects"` // their number, by which a missing shard is noticed
}

// The formats that can be read; Encode writes the latter. They differ in the shards.
const (
	formatLines  = 1
	formatShards = 2
)

// Encode encodes r as a small JSON head, and its objects as shards. An object stays in its shard
// while the number of shards stays the same, so a change of one object changes one shard. A service
// of up to ShardObjects objects has one shard.
func (r Record) Encode() (head []byte, shards [][]byte, err error) {
	head, err = json.Marshal(r.head())
	if err != nil {
		return nil, nil, fmt.Errorf("encode inventory of %s: %w", r.Service, err)
	}
	return head, r.Objects.shards(), nil
}

func (r Record) head() head {
	return head{Format: formatShards, Record: r, Objects: r.Objects.Len()}
}

// Decode decodes the result of Encode, of this version or an earlier one. Errors match
// ErrMalformed. Decode never returns a part of a record, because a prune would act on the
// difference.
func Decode(encodedHead []byte, shards [][]byte) (Record, error) {
	var h head
	if err := json.Unmarshal(encodedHead, &h); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := h.Record
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
