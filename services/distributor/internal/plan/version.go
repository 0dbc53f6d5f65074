// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/binary"
	"encoding/json"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// encodingVersion begins every encoding. Raising it changes every version and every spec digest in
// the fleet at once: agents then look at everything again, and apply nothing that is applied
// already.
const encodingVersion = "leat.plan.v1"

// encoder hashes values so that different sequences of values never hash alike: every value carries
// its length.
type encoder struct {
	hasher  *digest.Hasher
	scratch []byte
}

func newEncoder(subject string) *encoder {
	e := &encoder{hasher: digest.NewHasher()}
	e.text(encodingVersion)
	e.text(subject)
	return e
}

func (e *encoder) number(n int64) {
	e.scratch = binary.BigEndian.AppendUint64(e.scratch[:0], uint64(n))
	_, _ = e.hasher.Write(e.scratch)
}

func (e *encoder) text(s string) {
	e.scratch = binary.BigEndian.AppendUint64(e.scratch[:0], uint64(len(s)))
	e.scratch = append(e.scratch, s...)
	_, _ = e.hasher.Write(e.scratch)
}

func (e *encoder) flag(b bool) {
	if b {
		e.number(1)
		return
	}
	e.number(0)
}

// value takes the JSON of a value that consists of structs, lists and scalars only, and so has but
// one. Its field names are a part of what is hashed.
func (e *encoder) value(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error()) // which cannot be: there is nothing in it that has no JSON
	}
	e.text(string(text))
}

func (e *encoder) sum() string { return e.hasher.Digest().String() }

func specDigest(apply syncpolicy.Options, sources []catalog.Source) string {
	e := newEncoder("spec")
	e.text(apply.Namespace)
	e.flag(apply.CreatesNamespace())
	e.flag(apply.Prunes())
	e.number(int64(apply.HealthTimeout))
	e.flag(apply.Paused)
	e.flag(apply.ForceConflicts)
	e.text(string(apply.Renderer))
	e.text(apply.PruneConfirmation)
	e.number(int64(len(sources)))
	for _, source := range sources {
		e.text(source.Repository)
		e.text(source.Normal().Path)
		e.text(source.Subpath())
	}
	// The number of sources marks their end. Services that use none of what follows keep the
	// digests that they had before it was there, so that nothing is applied again because the hub
	// was upgraded.
	if !apply.Policy.IsZero() {
		e.text("policy")
		e.value(apply.Policy)
	}
	if apply.DryRun {
		e.text("dry run")
	}
	if younger := optionsSince(apply); !younger.IsZero() {
		e.text("options")
		e.value(younger)
	}
	return e.sum()
}

// optionsSince returns the options without those that specDigest writes one by one. Any option that
// is added later is in the digest by its JSON, and does not change the digests of services that do
// not use it.
func optionsSince(apply syncpolicy.Options) syncpolicy.Options {
	apply.Namespace, apply.CreateNamespace, apply.Prune, apply.HealthTimeout = "", nil, nil, 0
	apply.Paused, apply.ForceConflicts, apply.Renderer, apply.PruneConfirmation = false, false, "", ""
	apply.Policy, apply.DryRun = syncpolicy.Policy{}, false
	return apply
}

func versionOf(cluster string, settings syncpolicy.AgentSettings, entries []*Entry) string {
	e := newEncoder("plan")
	e.text(cluster)
	e.number(int64(len(entries)))
	for _, entry := range entries {
		e.text(entry.Name)
		e.text(entry.UID)
		e.text(entry.Digest)
		e.text(entry.SyncRequest)
	}
	if !settings.IsZero() { // as for a service's policy
		e.value(settings)
	}
	return e.sum()
}

// contentDigest covers the entry's spec, its bundles and its configuration.
func contentDigest(entry *Entry) string {
	e := newEncoder("entry")
	e.text(entry.SpecDigest)
	e.number(int64(len(entry.Bundles)))
	for _, bundle := range entry.Bundles {
		e.text(bundle.Digest.String())
	}
	// The number of bundles marks their end, so that this needs no mark of its own, and services
	// without a configuration keep the digests that they had before there were any.
	if entry.ConfigDigest != "" {
		e.text(entry.ConfigDigest)
	}
	return e.sum()
}
