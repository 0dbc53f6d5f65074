// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxAuthors bounds the authors that are remembered of one object: the latest ones.
const MaxAuthors = 256

// subjectOfPeople begins the subjects of people, and sourceSubject those of fleet sources among authors.
const (
	subjectOfPeople = "user:"
	sourceSubject   = "fleetsource:"
)

// Author changed a part of an object that decides what services run: see changesRelease. The record outlives
// later edits of other parts, which replace Metadata.UpdatedBy.
type Author struct {
	// ObjectUID is the uid of the changed object.
	ObjectUID string
	// Subject is a person, as in Origin, or a fleet source by its uid.
	Subject string
	// Revision is that of the author's latest change of the object, and At its time.
	Revision int64
	At       time.Time
}

// Person returns the name of the author, and whether the author is a person.
func (a Author) Person() (string, bool) { return strings.CutPrefix(a.Subject, subjectOfPeople) }

// noteAuthors remembers who has changed what services run. current is nil if next is new.
//
// A fleet source writes what Git holds, whose authors the hub does not know. It also does what people wrote
// into the fleet source, so those count who changed it since it last wrote the object.
func (e *Editor) noteAuthors(ctx context.Context, tx Tx, current, next Object) error {
	if !changesRelease(current, next) {
		return nil
	}
	uid := next.Meta().UID
	note := func(subjects ...string) error {
		authors := make([]Author, len(subjects))
		for i, subject := range subjects {
			authors[i] = Author{ObjectUID: uid, Subject: subject, Revision: tx.Revision(), At: next.Meta().UpdatedAt}
		}
		return tx.PutAuthors(ctx, authors)
	}
	// A new service is held at what it was created with, so nothing of that is rolled out. A new set may be
	// what references of services have waited for.
	isRolledOut := current != nil || next.Key().Kind == KindFleetSource || next.Key().Kind == KindConfigSet
	if source := e.manager.Source; source != (SourceRef{}) {
		subjects := []string{sourceSubject + source.UID}
		if isRolledOut {
			directors, err := e.directors(ctx, tx, uid)
			if err != nil {
				return err
			}
			subjects = append(subjects, directors...)
		}
		return note(subjects...)
	}
	if subject := OriginOf(ctx).Subject; isRolledOut && strings.HasPrefix(subject, subjectOfPeople) {
		return note(subject)
	}
	return nil
}

// directors returns the subjects of the people who changed the fleet source that edits since it last wrote the
// object with that uid.
func (e *Editor) directors(ctx context.Context, tx Tx, uid string) (subjects []string, err error) {
	of, err := tx.Authors(ctx, e.manager.Source.UID)
	if err != nil || len(of) == 0 {
		return nil, err
	}
	own, err := tx.Authors(ctx, uid)
	written := int64(0)
	for _, author := range own {
		if author.Subject == sourceSubject+e.manager.Source.UID {
			written = author.Revision
		}
	}
	for _, author := range of {
		if _, isPerson := author.Person(); isPerson && author.Revision > written {
			subjects = append(subjects, author.Subject)
		}
	}
	return subjects, err
}

// changesRelease reports whether an edit can change what services run under a rollout policy: what ServiceSpec.Staged
// returns, configuration, and labels, which choose the policy that holds the earlier spec. current is nil if next
// is new.
func changesRelease(current, next Object) bool {
	switch n := next.(type) {
	case *Service:
		c, ok := current.(*Service)
		return !ok || c.Spec.Staged().Digest != n.Spec.Staged().Digest || !sameConfig(c.Spec, n.Spec) || !maps.Equal(c.Labels, n.Labels)
	case *GlobalService:
		c, ok := current.(*GlobalService)
		return !ok || c.Spec.Template.Spec.Staged().Digest != n.Spec.Template.Spec.Staged().Digest || !sameConfig(c.Spec.Template.Spec, n.Spec.Template.Spec) ||
			!maps.Equal(c.Spec.Template.Labels, n.Spec.Template.Labels) || !reflect.DeepEqual(stagedOverrides(c.Spec.Overrides), stagedOverrides(n.Spec.Overrides))
	case *Cluster: // templates read its facts
		c, ok := current.(*Cluster)
		return ok && !sameLabels(&c.Metadata, &n.Metadata)
	case *ConfigSet:
		c, ok := current.(*ConfigSet)
		return !ok || !c.Spec.Config.equal(n.Spec.Config)
	case *Project:
		c, ok := current.(*Project)
		return ok && !slices.Equal(c.Spec.ConfigSets, n.Spec.ConfigSets)
	case *FleetSource:
		c, ok := current.(*FleetSource)
		return !ok || !reflect.DeepEqual(directing(c.Spec), directing(n.Spec))
	}
	return false
}

// sameConfig reports whether two specs have the same configuration and the same sets.
func sameConfig(a, b ServiceSpec) bool {
	return a.Config.equal(b.Config) && slices.Equal(a.ConfigSets, b.ConfigSets)
}

// stagedOverrides returns the overrides that change more than brakes, without these.
func stagedOverrides(all []ServiceOverride) []ServiceOverride {
	staged := make([]ServiceOverride, 0, len(all))
	for _, override := range all {
		patch := override.Patch
		patch.Paused, patch.DryRun = nil, nil
		if !reflect.DeepEqual(patch, ServicePatch{}) || !override.Config.Empty() || len(override.ConfigSets) > 0 {
			staged = append(staged, ServiceOverride{Clusters: override.Clusters, ConfigSets: override.ConfigSets, Config: override.Config, Patch: patch})
		}
	}
	return slices.Clip(staged)
}

// directing returns the part of the spec of a fleet source that decides what it writes.
func directing(spec FleetSourceSpec) FleetSourceSpec {
	spec.Description, spec.Suspended, spec.Interval, spec.KeepsRemoved, spec.PruneLimit = "", false, 0, false, 0
	return spec
}
