// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// encodingVersion begins every encoding. Raising it changes every version and every spec digest in
// the fleet at once: agents then check everything again, and apply nothing that is applied already.
const encodingVersion = "leat.plan.v1"

// encoder digests the values of a subject.
type encoder struct{ *digest.Sequence }

func newEncoder(subject string) encoder {
	return encoder{digest.NewSequence(encodingVersion, subject)}
}

func (e encoder) flag(b bool) {
	if b {
		e.Number(1)
		return
	}
	e.Number(0)
}

// uid and digest take texts, as Text does, which they write into memory of their own.
func (e encoder) uid(uid catalog.UID) {
	var room [36]byte
	text, _ := uid.AppendText(room[:0]) // never fails
	e.TextBytes(text)
}

func (e encoder) digest(d digest.Digest) {
	var room [80]byte
	text, _ := d.AppendText(room[:0]) // never fails
	e.TextBytes(text)
}

// value takes the JSON of a value that consists of structs, lists, scalars and maps with text keys,
// which encoding/json sorts, and so has but one. Its field names are hashed.
func (e encoder) value(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error()) // which cannot be: there is nothing in it that has no JSON
	}
	e.Text(string(text))
}

func (e encoder) sum() string { return e.Digest().String() }

// SpecDigest returns the digest of a spec, as an entry of a plan and the reports about it name it.
// limits are the limits of the service's project; nil: none.
func SpecDigest(spec catalog.ServiceSpec, limits *syncpolicy.Limits) string {
	content := Content{Options: spec.Options, Limits: limits}
	return specDigest(content.Apply(), spec.Sources)
}

func specDigest(apply syncpolicy.Options, sources []catalog.Source) string {
	e := newEncoder("spec")
	e.Text(apply.Namespace)
	e.flag(apply.CreatesNamespace())
	e.flag(apply.Prunes())
	e.Number(int64(apply.HealthTimeout))
	e.flag(apply.Paused)
	e.flag(apply.ForceConflicts)
	e.Text(string(apply.Renderer))
	e.Text(apply.PruneConfirmation)
	e.Number(int64(len(sources)))
	for _, source := range sources {
		e.Text(source.Repository)
		e.Text(source.Normal().Path)
		e.Text(source.Subpath())
	}
	// The number of sources marks their end. Services that use none of what follows keep the
	// digests that they had before it was there, so that nothing is applied again because the hub
	// was upgraded.
	if !apply.Policy.IsZero() {
		e.Text("policy")
		e.value(apply.Policy)
	}
	if apply.DryRun {
		e.Text("dry run")
	}
	if younger := optionsSince(apply); !younger.IsZero() {
		e.Text("options")
		e.value(younger)
	}
	for i, source := range sources {
		if younger := (placing{Source: i, Chart: source.Chart, Mount: source.Mount}); younger != (placing{Source: i}) {
			e.Text("source")
			e.value(younger)
		}
	}
	return e.sum()
}

// placing holds the fields of a source besides its repository, path and subpath that agents
// receive. Its selection is in the digest of its content.
type placing struct {
	Source int    `json:"source"` // its index
	Chart  string `json:"chart,omitempty"`
	Mount  string `json:"mount,omitempty"`
}

// optionsSince returns the options without the ones that specDigest writes one by one. Any option
// that is added later is in the digest by its JSON, and does not change the digests of services
// that do not use it.
func optionsSince(apply syncpolicy.Options) syncpolicy.Options {
	apply.Namespace, apply.CreateNamespace, apply.Prune, apply.HealthTimeout = "", nil, nil, 0
	apply.Paused, apply.ForceConflicts, apply.Renderer, apply.PruneConfirmation = false, false, "", ""
	apply.Policy, apply.DryRun = syncpolicy.Policy{}, false
	return apply
}

func versionOf(cluster string, own ClusterPart, entries []*Entry) string {
	e := newEncoder("plan")
	e.Text(cluster)
	e.Number(int64(len(entries)))
	for _, entry := range entries {
		e.Text(entry.Name)
		e.uid(entry.UID)
		e.Text(entry.Digest)
		e.Text(entry.SyncRequest)
	}
	if !own.Settings.IsZero() { // as for a service's policy
		e.value(own.Settings)
	}
	if !own.Facts.IsZero() { // the JSON of settings never equals this text
		e.Text("facts")
		e.value(own.Facts)
	}
	if !own.RemovalsHeldSince.IsZero() { // nor this one
		e.Text("removals held")
		e.Number(own.RemovalsHeldSince.UnixMicro())
	}
	return e.sum()
}

// contentDigest covers the entry's spec, its bundles and its configuration.
func (c *Content) digest() string {
	e := newEncoder("entry")
	e.Text(c.SpecDigest)
	e.Number(int64(len(c.Bundles)))
	for _, bundle := range c.Bundles {
		e.digest(bundle.Digest)
	}
	// The number of bundles marks their end, so that this needs no mark of its own, and services
	// without a configuration keep the digests that they had before there were any.
	if c.ConfigDigest != "" {
		e.Text(c.ConfigDigest)
	}
	return e.sum()
}
