// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// StagedSpec is the part of a service's spec that decides what the service runs. Under a rollout policy it
// reaches services in waves. The rest of the spec reaches them at once: see Staged. A StagedSpec does not
// change, so services share equal ones. Its JSON is its stored form.
type StagedSpec struct {
	Sources []Source `json:"sources,omitempty"`
	// Options are the options of the service without its brakes. Nil: every default.
	Options *syncpolicy.Options `json:"options,omitempty"`
	// Digest names the value: equal ones have equal digests. It is computed and never stored, so a later
	// version may compute it in another way.
	Digest string `json:"-"`
}

// Staged returns the part of the spec that decides what the service runs. Two parts are left out:
//
//   - The brakes and answers of people: whether the service is paused or a dry run, and which prune is
//     confirmed. They stop a service, or let it continue with the release that it has.
//   - The configuration, which is staged beside the spec by its name, and the cluster, which is a part of the
//     name.
//
// Any other option is staged, including future ones.
func (s ServiceSpec) Staged() *StagedSpec {
	staged := &StagedSpec{Sources: s.Sources, Options: s.Options}
	if s.Options != nil && brakesOf(*s.Options) != (brakes{}) {
		options := *s.Options
		brakes{}.put(&options)
		staged.Options = &options
	}
	staged.name()
	return staged
}

// At returns the spec with another staged part. The rest stays as it is.
func (s ServiceSpec) At(staged *StagedSpec) ServiceSpec {
	own := brakesOf(s.Wanted())
	s.Sources, s.Options = staged.Sources, staged.Options
	if own != (brakes{}) {
		options := s.Wanted()
		own.put(&options)
		s.Options = &options
	}
	return s
}

// brakes are the options by which people stop a service or answer its agent.
type brakes struct {
	pause             syncpolicy.Pause
	isDryRun          bool
	pruneConfirmation string
}

func brakesOf(o syncpolicy.Options) brakes {
	return brakes{pause: o.Pause(), isDryRun: o.DryRun, pruneConfirmation: o.PruneConfirmation}
}

func (b brakes) put(o *syncpolicy.Options) {
	*o = o.WithPause(b.pause)
	o.DryRun, o.PruneConfirmation = b.isDryRun, b.pruneConfirmation
}

// name sets the digest. Sources are compared in their normal spelling, and no options equal zero options.
func (s *StagedSpec) name() {
	named := struct {
		Sources []Source           `json:"sources"`
		Options syncpolicy.Options `json:"options"`
	}{Sources: make([]Source, len(s.Sources))}
	for i, source := range s.Sources {
		named.Sources[i] = source.Normal()
		named.Sources[i].Mount = source.Mount
	}
	if s.Options != nil {
		named.Options = *s.Options
	}
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(named) // a hash takes everything, and all of it has JSON
	s.Digest = hex.EncodeToString(h.Sum(nil)[:16])
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *StagedSpec) UnmarshalJSON(text []byte) error {
	type plain StagedSpec
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	s.name()
	return nil
}

// Release is the unit that a rollout brings to a service: a spec, a configuration, and the content
// of the spec's sources.
type Release struct {
	// Spec is nil in what earlier versions stored: they staged content alone.
	Spec *StagedSpec
	// Config names a configuration: see [StagedConfig]. It is empty in what earlier versions stored.
	Config  string
	Content []HeldSource
}

// Name returns a name that equal releases share. The commits of content take no part in it.
func (r Release) Name() string {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	if r.Spec != nil {
		_ = encoder.Encode(r.Spec.Digest)
	}
	if r.Config != "" {
		_ = encoder.Encode(struct {
			Config string `json:"config"`
		}{r.Config})
	}
	for _, held := range r.Content {
		_ = encoder.Encode(struct {
			Source Source        `json:"source"`
			Digest digest.Digest `json:"digest"`
		}{held.Source, held.Snapshot.Digest})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// IsOf reports whether the release has exactly that staged spec.
func (r Release) IsOf(spec *StagedSpec) bool {
	return r.Spec != nil && spec != nil && r.Spec.Digest == spec.Digest
}

// HeldSource is a service's content of a source instead of the source's present content. Its JSON
// is its stored form. It is comparable.
type HeldSource struct {
	// Source is in its normal spelling.
	Source   Source   `json:"source"`
	Snapshot Snapshot `json:"snapshot"`
}
