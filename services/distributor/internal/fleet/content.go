// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Resolution returns the known content of the source.
func (v *View) Resolution(source catalog.Source) catalog.Resolution {
	return v.sources.resolution(source)
}

// Resolved takes over the content of a source, unless that is an earlier state of the upstream than
// the known one. It revises the plans in memory that name the source, and no others. A commit that
// leaves the content as it was costs a plan nothing until it is read. The trigger may be
// nil.
func (v *View) Resolved(ctx context.Context, source catalog.Source, next catalog.Resolution, trigger *catalog.Trigger) {
	defer v.writing.take()()
	last, ok := v.sources.put(source, next)
	hasNewSnapshot, hasNewContent := !equal(last.Snapshot, next.Snapshot), !hasSameContent(last.Snapshot, next.Snapshot)
	if !ok || !hasNewSnapshot && equal(last.Problem, next.Problem) {
		return
	}
	set, readers := newChangeSet(), v.Catalog.Readers(source)
	if hasNewSnapshot {
		// Services may be held at specs that name it, although their own do not.
		set.addObject(catalog.Key{Kind: catalog.KindRepository, Name: source.Repository})
	}
	for _, service := range readers {
		switch {
		case hasNewContent:
			set.addService(service)
		case last.Problem != nil || next.Problem != nil:
			set.addStatus(service)
		default:
			set.addObject(service.Key()) // it shows another commit
		}
	}
	if hasNewContent {
		project := objectname.Project(source.Repository)
		v.BundleBooks.account(set, project, last.Snapshot)
		v.BundleBooks.account(set, project, next.Snapshot)
	}
	changed := v.plans.revise(ctx, set, trigger)
	if hasNewSnapshot && !hasNewContent {
		v.plans.outdate(readers)
	}
	v.publish(set, changed)
}

// Stored takes over what the store holds of a source, if that is newer than what the view knows. A
// problem stays.
func (v *View) Stored(ctx context.Context, source catalog.Source, stored catalog.Resolution) {
	known := v.Resolution(source)
	if known.Snapshot == nil && stored.Snapshot != nil {
		// Stored content may be from a time when the project had room for it.
		release, refusal := v.BundleBooks.Reserve(source, stored.Snapshot)
		if refusal != "" {
			return
		}
		defer release()
	}
	if known.Snapshot == nil || stored.FreshAt.After(known.FreshAt) {
		stored.Problem = known.Problem
		v.Resolved(ctx, source, stored, nil)
	}
}

// SetMirror takes over the state of a repository's mirror, as its owner reports it. Nil means that
// the mirror is gone.
func (v *View) SetMirror(repository string, mirror *catalog.Mirror) {
	hasOtherRefs := v.sources.putMirror(repository, mirror)
	if v.Catalog.RepositoryUID(repository) == "" {
		return
	}
	v.p.Objects.Publish(catalog.Key{Kind: catalog.KindRepository, Name: repository})
	// A problem of the mirror is a problem of services that wait for its first fetch. Refs that are
	// held back are of interest to all services that read it.
	for _, source := range v.Catalog.SourcesOf(repository) {
		if hasOtherRefs || v.Resolution(source).Snapshot == nil {
			for _, service := range v.Catalog.Readers(source) {
				v.Tallies.recount(service.Spec.Cluster, service.Name)
				v.p.Objects.Publish(service.Key())
			}
		}
	}
}

// Pinned reports whether the current plan of a cluster names the digest, whether that plan is in
// memory or not: a source that a service names holds it now.
func (v *View) Pinned(d digest.Digest) bool {
	for _, source := range v.sources.holding(d) {
		if v.Catalog.Wanted(source) {
			return true
		}
	}
	return v.admitted.holds(d)
}
