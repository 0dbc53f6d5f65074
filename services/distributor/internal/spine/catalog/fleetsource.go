// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// Defaults and bounds of a fleet source.
const (
	DefaultLookInterval = 5 * time.Minute
	DefaultPruneLimit   = 10
	minLookInterval     = 10 * time.Second
	maxLookInterval     = 24 * time.Hour
	maxPruneLimit       = 10_000
	maxSourceProjects   = 64
	// maxFleetSources bounds the fleet sources of a project: one replica reads all of them.
	maxFleetSources = 64
)

// FleetSource keeps objects of the catalog equal to documents in a folder of a repository. It acts
// with a role of its own, so nothing that is committed there can do more than the role allows.
type FleetSource struct {
	Metadata
	Spec FleetSourceSpec
}

// FleetSourceSpec sets where the documents are, and which objects may be written. Its JSON is its
// stored form.
type FleetSourceSpec struct {
	Description string `json:"description,omitempty"`
	Suspended   bool   `json:"suspended,omitempty"`
	// SuspendedUntil is when Suspended ends by itself. Zero: it does not.
	SuspendedUntil time.Time `json:"suspendedUntil,omitzero"`
	// Source is a folder of a repository of the same project.
	Source Source `json:"source"`
	// Interval is zero for DefaultLookInterval.
	Interval time.Duration `json:"interval,omitempty"`
	DryRun   bool          `json:"dryRun,omitempty"`
	// KeepsRemoved leaves objects whose documents are gone.
	KeepsRemoved bool `json:"keepsRemoved,omitempty"`
	// PruneLimit is zero for DefaultPruneLimit.
	PruneLimit int32 `json:"pruneLimit,omitempty"`
	Adopt      bool  `json:"adopt,omitempty"`
	// Kinds are the kinds that may be written; none: all that the role may write.
	Kinds []Kind `json:"kinds,omitempty"`
	// Role is RoleEditor or RoleAdmin.
	Role RoleName `json:"role,omitempty"`
	// Projects may be written; none: the source's own. accessrule.All stands for all.
	Projects []string `json:"projects,omitempty"`
	// Hub opens everything in the hub to the role.
	Hub bool `json:"hub,omitempty"`
}

// Key implements Object.
func (f *FleetSource) Key() Key { return Key{KindFleetSource, f.Name} }

func (f *FleetSource) sameSpec(other Object) bool {
	o, ok := other.(*FleetSource)
	return ok && reflect.DeepEqual(f.Spec, o.Spec)
}

func (f *FleetSource) clone() Object { return new(*f) }

func (f *FleetSource) normalize()          { f.Spec.normalize() }
func (f *FleetSource) settle(Object) error { return nil }
func (f *FleetSource) reachable() error    { return nil }

// checkReferences implements Object: the repository exists, and has folders.
func (f *FleetSource) checkReferences(ctx context.Context, tx Reader) error {
	key := Key{KindRepository, f.Spec.Source.Repository}
	object, err := tx.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return &ReferenceError{Key: key, Path: "spec.source.repository"}
	}
	repository, ok := object.(*Repository)
	if err != nil || !ok {
		return err
	}
	return fits("spec.source", f.Spec.Source, repository)
}

func (f *FleetSource) checkSettled(context.Context, Reader) error { return nil }

func (f *FleetSource) room(ProjectQuotas) Room {
	return Room{Most: maxFleetSources, Words: "fleet sources"}
}

func (f *FleetSource) secrets() map[string]any { return nil }

func (f *FleetSource) changesRelease(stored Object) bool {
	have, ok := stored.(*FleetSource)
	return !ok || !reflect.DeepEqual(directing(have.Spec), directing(f.Spec))
}

// Place implements Object. One that writes beyond its project is the hub's.
func (f *FleetSource) Place() Place { return Place{Project: f.Project()} }

// Ref returns what objects name that the source manages.
func (f *FleetSource) Ref() SourceRef { return SourceRef{Path: f.Name, UID: f.UID} }

// Project returns the project that the source belongs to in decisions about rights; empty: it writes
// beyond its own project, so it belongs to the hub.
func (f *FleetSource) Project() string {
	own := objectname.Project(f.Name)
	if f.Spec.Hub || slices.ContainsFunc(f.Spec.Projects, func(name string) bool { return name != own }) {
		return ""
	}
	return own
}

// Rights returns the binding whose rights the source acts with. It names no subject.
func (f *FleetSource) Rights() AccessBindingSpec {
	spec := AccessBindingSpec{Role: cmp.Or(f.Spec.Role, RoleEditor)}
	switch {
	case f.Spec.Hub:
		spec.Hub = true
	case slices.Contains(f.Spec.Projects, accessrule.All):
		spec.Projects.All = true
	case len(f.Spec.Projects) > 0:
		spec.Projects.Names = f.Spec.Projects
	default:
		spec.Projects.Names = []string{objectname.Project(f.Name)}
	}
	return spec
}

// Every returns how often everything is compared.
func (s FleetSourceSpec) Every() time.Duration { return cmp.Or(s.Interval, DefaultLookInterval) }

// MostRemovals returns how many removals need no confirmation.
func (s FleetSourceSpec) MostRemovals() int { return int(cmp.Or(s.PruneLimit, DefaultPruneLimit)) }

// Writes reports whether documents of the kind may be written.
func (s FleetSourceSpec) Writes(kind Kind) bool {
	return len(s.Kinds) == 0 || slices.Contains(s.Kinds, kind)
}

// Suspension returns whether the source is suspended, and until when.
func (s FleetSourceSpec) Suspension() syncpolicy.Pause {
	return syncpolicy.Pause{IsSet: s.Suspended, Until: s.SuspendedUntil}
}

// IsActive reports whether the source puts right, at a time, what others change of its objects.
func (s FleetSourceSpec) IsActive(at time.Time) bool { return !s.Suspension().At(at) && !s.DryRun }

// settle gives the stored form to what has several spellings. It works on a clone.
func (s *FleetSourceSpec) normalize() {
	s.Role = cmp.Or(s.Role, RoleEditor)
	s.Interval = s.Interval.Truncate(time.Microsecond)
	s.Projects = asSet(s.Projects)
	if s.Kinds = slices.Compact(slices.Sorted(slices.Values(s.Kinds))); len(s.Kinds) == 0 {
		s.Kinds = nil
	}
}

// Validate implements Object.
func (f *FleetSource) Validate() error {
	s := f.Spec
	return cmp.Or(
		f.validate(KindFleetSource),
		check.Description(s.Description),
		s.Source.Validate("spec.source"),
		f.validatePlace(),
		check.Within("spec.interval", s.Interval, minLookInterval, maxLookInterval),
		s.validateLimit(),
		s.Suspension().Validate("spec.suspended"),
		fielderr.Each("spec.kinds", "items", s.Kinds, len(Kinds()), validateKind),
		fielderr.Each("spec.projects", "items", s.Projects, maxSourceProjects, validateProjectOrAll),
		s.validateRights(),
	)
}

// validatePlace checks what a folder of documents can be. The repository has to be of the same project,
// because people who may change the repository decide what the source writes.
func (f *FleetSource) validatePlace() error {
	s := f.Spec.Source
	switch {
	case s.Repository == "":
		return fielderr.New("spec.source.repository", "is required")
	case objectname.Project(s.Repository) != objectname.Project(f.Name):
		return fielderr.New("spec.source.repository", "%q is of another project; a fleet source reads a repository of its own", objectname.Display(s.Repository))
	case s.Chart != "":
		return fielderr.New("spec.source.chart", "has no meaning here: a fleet source reads documents")
	case s.Layer != (ArtifactLayer{}):
		return fielderr.New("spec.source.layer", "has no meaning here: a fleet source reads documents")
	case s.Mount != "":
		return fielderr.New("spec.source.mount", "has no meaning here: a fleet source has one folder")
	}
	return nil
}

func (s FleetSourceSpec) validateLimit() error {
	if s.PruneLimit < 0 || s.PruneLimit > maxPruneLimit {
		return fielderr.New("spec.prune_limit", "is %d; from 1 to %d are allowed, and 0 means %d", s.PruneLimit, maxPruneLimit, DefaultPruneLimit)
	}
	return nil
}

func (s FleetSourceSpec) validateRights() error {
	switch s.Role {
	case RoleNone, RoleEditor, RoleAdmin:
	default:
		return fielderr.New("spec.role", "%q cannot write; choose editor or admin", string(s.Role))
	}
	if s.Hub && len(s.Projects) > 0 {
		return fielderr.New("spec.projects", "has no meaning beside hub, which opens all projects")
	}
	return nil
}

func validateKind(field string, kind Kind) error {
	if !slices.Contains(Kinds(), kind) {
		return fielderr.New(field, "%q is not a kind of documents", string(kind))
	}
	return nil
}

func validateProjectOrAll(field, name string) error {
	if name == accessrule.All {
		return nil
	}
	return objectname.ValidateLabel(field, name)
}

// directing returns the part of the spec of a fleet source that decides what it writes.
func directing(spec FleetSourceSpec) FleetSourceSpec {
	spec.SuspendedUntil = time.Time{}
	spec.Description, spec.Suspended, spec.Interval, spec.KeepsRemoved, spec.PruneLimit = "", false, 0, false, 0
	return spec
}
