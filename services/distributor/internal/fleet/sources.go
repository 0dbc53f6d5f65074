// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Sources returns every source that a service names, in its normal spelling.
func (v *View) Sources() []catalog.Source {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.index.Sources()
}

// SourcesOf returns the sources that read the repository, in their normal spelling.
func (v *View) SourcesOf(repository string) []catalog.Source {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.index.SourcesOf(repository)
}

// Wanted tells whether a service names the source.
func (v *View) Wanted(source catalog.Source) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.index.Wanted(source)
}

// Resolution returns what is known of the source.
func (v *View) Resolution(source catalog.Source) catalog.Resolution {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.resolutions[source]
}

// RepositoryUID returns the uid of a repository, "" when there is none of that name.
func (v *View) RepositoryUID(name string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if r := v.repositories[name]; r != nil {
		return r.UID
	}
	return ""
}

// Resolved takes over what a source holds, unless that is an earlier state of the upstream than the one that is known, and
// revises the plans in memory that name it and no other. The traceparent is that of the cause, "" when there is none.
func (v *View) Resolved(ctx context.Context, source catalog.Source, next catalog.Resolution, traceparent string) {
	d := newDirt()
	v.mu.Lock()
	last := v.resolutions[source]
	if outdated(last, next) {
		v.mu.Unlock()
		return
	}
	v.hold(source, next)
	if sameProblem(last.Problem, next.Problem) && sameSnapshot(last.Snapshot, next.Snapshot) {
		v.mu.Unlock()
		return
	}
	for _, name := range v.index.Readers(source) {
		d.service(v.index.Service(name))
	}
	var changed []string
	if !sameSnapshot(last.Snapshot, next.Snapshot) {
		changed = v.revise(ctx, d, cause{traceparent: traceparent})
	}
	v.mu.Unlock()
	v.publish(d, changed)
}

func sameSnapshot(a, b *catalog.Snapshot) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameProblem(a, b *catalog.Problem) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// SetMirror takes over what the owner of a repository's mirror says. Nil means that the mirror is gone.
func (v *View) SetMirror(repository string, mirror *catalog.Mirror) {
	v.mu.Lock()
	_, known := v.repositories[repository]
	held := v.mirrors[repository].HeldRefs
	if mirror == nil {
		delete(v.mirrors, repository)
	} else if last, ok := v.mirrors[repository]; !ok || last.Epoch <= mirror.Epoch {
		v.mirrors[repository] = *mirror
	}
	var keys []catalog.Key
	if known {
		keys = append(keys, catalog.Key{Kind: catalog.KindRepository, Name: repository})
		keys = append(keys, v.readers(repository, !slices.Equal(held, v.mirrors[repository].HeldRefs))...)
	}
	v.mu.Unlock()
	v.p.Objects.Publish(keys...)
}

// readers returns the services that wait for the repository's first fetch, since its problem is theirs, or all that read it.
func (v *View) readers(repository string, all bool) []catalog.Key {
	var keys []catalog.Key
	for _, source := range v.index.SourcesOf(repository) {
		if v.resolutions[source].Snapshot != nil && !all {
			continue
		}
		for _, name := range v.index.Readers(source) {
			keys = append(keys, catalog.Key{Kind: catalog.KindService, Name: name})
		}
	}
	return keys
}
