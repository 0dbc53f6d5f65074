// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// largestShown is how many bundles of a project are listed.
const largestShown = 5

// BundleUse is the room that the bundles of a project's repositories take.
type BundleUse struct {
	// Bytes are the sizes of all bundles that services name now, equal ones once.
	Bytes   int64
	Bundles int
	// Largest are the largest of them, at most five.
	Largest []OwnBundle
}

// OwnBundle is a bundle of a project, and one of the sources that hold it.
type OwnBundle struct {
	Source catalog.Source
	Bytes  int64
}

// BundleBooks keep what the bundles of each project take. A change costs as much as there are sources
// with that content, whatever the project holds. They are safe for concurrent use.
type BundleBooks struct {
	catalog *Catalog
	sources *sourceStates

	mu        sync.Mutex
	byProject map[string]*bundleBook
}

// bundleBook is the book of one project.
type bundleBook struct {
	sizes map[digest.Digest]int64
	total int64
	// reserved is content that has room and is about to be held by a source.
	reserved map[digest.Digest]reservation
	// largest is nil while it has to be made again.
	largest []digest.Digest
}

type reservation struct {
	bytes   int64
	holders int
}

func (b *BundleBooks) ofLocked(project string) *bundleBook {
	book, ok := b.byProject[project]
	if !ok {
		book = &bundleBook{sizes: map[digest.Digest]int64{}, reserved: map[digest.Digest]reservation{}}
		b.byProject[project] = book
	}
	return book
}

// dropLocked drops an empty book.
func (b *BundleBooks) dropLocked(project string) {
	if book := b.byProject[project]; book != nil && len(book.sizes)+len(book.reserved) == 0 {
		delete(b.byProject, project)
	}
}

// set records whether a project has a bundle, and of what size. It reports whether that changes
// anything.
func (b *BundleBooks) set(project string, d digest.Digest, bytes int64, isHeld bool) (hasChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.dropLocked(project)
	book := b.ofLocked(project)
	last, wasHeld := book.sizes[d]
	if wasHeld == isHeld && last == bytes {
		return false
	}
	delete(book.sizes, d)
	book.total -= last
	if isHeld {
		book.sizes[d] = bytes
		book.total += bytes
	}
	book.largest = nil
	return true
}

// enter reserves room for a bundle if the quotas allow it, or returns why not. frees is content
// that the project has no longer afterwards.
func (b *BundleBooks) enter(project string, quotas catalog.ProjectQuotas, last, next *catalog.Snapshot, frees bool) (release func(), refusal string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.dropLocked(project)
	book := b.ofLocked(project)
	change := catalog.BundleChange{Before: book.total, Next: next.ContentSize}
	for d, r := range book.reserved {
		if _, isHeld := book.sizes[d]; !isHeld {
			change.Before += r.bytes
		}
	}
	change.After = change.Before
	if last != nil {
		change.Last = last.ContentSize
		if _, isReserved := book.reserved[last.Digest]; frees && !isReserved {
			change.After -= book.sizes[last.Digest]
		}
	}
	_, isHeld := book.sizes[next.Digest]
	if _, isReserved := book.reserved[next.Digest]; !isHeld && !isReserved {
		change.After += next.ContentSize
	}
	if refusal := quotas.Refuses(project, change); refusal != "" {
		return nil, refusal
	}
	book.reserved[next.Digest] = reservation{bytes: next.ContentSize, holders: book.reserved[next.Digest].holders + 1}
	return sync.OnceFunc(func() { b.leave(project, next.Digest) }), ""
}

func (b *BundleBooks) leave(project string, d digest.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.dropLocked(project)
	book := b.ofLocked(project)
	r := book.reserved[d]
	if r.holders--; r.holders > 0 {
		book.reserved[d] = r
		return
	}
	delete(book.reserved, d)
}

// use returns what a project's bundles take, and the largest of them with their sizes.
func (b *BundleBooks) use(project string) (bytes int64, bundles int, largest map[digest.Digest]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	book := b.byProject[project]
	if book == nil {
		return 0, 0, nil
	}
	if book.largest == nil {
		book.largest = largestOf(book.sizes)
	}
	largest = make(map[digest.Digest]int64, len(book.largest))
	for _, d := range book.largest {
		largest[d] = book.sizes[d]
	}
	return book.total, len(book.sizes), largest
}

// largestOf returns the digests with the largest sizes, at most largestShown.
func largestOf(sizes map[digest.Digest]int64) []digest.Digest {
	largest := make([]digest.Digest, 0, largestShown+1)
	for d, size := range sizes {
		i := slices.IndexFunc(largest, func(other digest.Digest) bool {
			return cmp.Or(cmp.Compare(sizes[other], size), cmp.Compare(d.String(), other.String())) < 0
		})
		if i < 0 {
			i = len(largest)
		}
		if i < largestShown {
			largest = slices.Insert(largest, i, d)
			largest = largest[:min(len(largest), largestShown)]
		}
	}
	return largest
}

// Reserve makes room in the project of a source's repository for content that the source is about to
// hold. The caller releases it after Resolved. If a quota does not allow it, release is nil, and
// refusal is a sentence about it.
//
// Content that the source holds already has room. Two replicas that see two commits in
// different orders may each reserve room for one of them. Both are stored in the end, so the quota can be
// exceeded by one bundle.
func (b *BundleBooks) Reserve(source catalog.Source, next *catalog.Snapshot) (release func(), refusal string) {
	last := b.sources.resolution(source).Snapshot
	if last != nil && !b.catalog.Wanted(source) {
		last = nil
	}
	return b.reserve(source, last, next)
}

func (b *BundleBooks) reserve(source catalog.Source, last, next *catalog.Snapshot) (release func(), refusal string) {
	project := objectname.Project(source.Repository)
	quotas := b.quotasOf(project)
	if !quotas.BoundsBundles() || last != nil && last.Digest == next.Digest {
		return func() {}, ""
	}
	frees := last != nil && len(b.wantedOf(project, last.Digest)) == 1
	return b.enter(project, quotas, last, next, frees)
}

func (b *BundleBooks) quotasOf(name string) catalog.ProjectQuotas {
	if project := b.catalog.project(name); project != nil {
		return project.Spec.Quotas
	}
	return catalog.ProjectQuotas{}
}

// wantedOf returns the sources of a project's repositories that hold content and that services name.
func (b *BundleBooks) wantedOf(project string, d digest.Digest) []catalog.Source {
	return slices.DeleteFunc(b.sources.holding(d), func(s catalog.Source) bool {
		return objectname.Project(s.Repository) != project || !b.catalog.Wanted(s)
	})
}

// account brings the books up to date about content of a project that a source has begun or ceased to
// hold, or that services have begun or ceased to name. The caller holds writing.
func (b *BundleBooks) account(set *changeSet, project string, snapshot *catalog.Snapshot) {
	if snapshot == nil {
		return
	}
	isHeld := len(b.wantedOf(project, snapshot.Digest)) > 0
	bytes := snapshot.ContentSize
	if !isHeld {
		bytes = 0
	}
	if b.set(project, snapshot.Digest, bytes, isHeld) {
		set.addObject(catalog.Key{Kind: catalog.KindProject, Name: project})
	}
}

// accountWanted brings the books up to date about sources that services have begun or ceased to name.
// A source that comes back with content for which the project has no room any more loses it, and is asked
// for again like a new one: otherwise services that are deleted and made again would pass the quota.
// The caller holds writing.
func (b *BundleBooks) accountWanted(set *changeSet, isFirst bool) {
	for source, wasWanted := range set.sources {
		isWanted := isNamed(b.catalog, source)
		snapshot := b.sources.resolution(source).Snapshot
		if isWanted == wasWanted || snapshot == nil {
			continue
		}
		if isWanted && !isFirst {
			release, refusal := b.reserve(source, nil, snapshot)
			if refusal != "" {
				b.sources.drop(source)
				set.addObject(catalog.Key{Kind: catalog.KindRepository, Name: source.Repository})
				continue
			}
			defer release()
		}
		b.account(set, objectname.Project(source.Repository), snapshot)
	}
}

// BundleUse returns what the bundles of a project's repositories take.
func (b *BundleBooks) BundleUse(project string) BundleUse {
	bytes, bundles, largest := b.use(project)
	use := BundleUse{Bytes: bytes, Bundles: bundles}
	for d, size := range largest {
		sources := b.wantedOf(project, d)
		if len(sources) == 0 {
			continue // it has just ceased to be named
		}
		first := slices.MinFunc(sources, func(a, b catalog.Source) int {
			return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Place(), b.Place()))
		})
		use.Largest = append(use.Largest, OwnBundle{Source: first, Bytes: size})
	}
	slices.SortFunc(use.Largest, func(a, b OwnBundle) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Source.Repository, b.Source.Repository), cmp.Compare(a.Source.Place(), b.Source.Place()))
	})
	return use
}

// EachBoundedProject calls fn for the projects with a quota of bytes for all bundles, by name.
func (b *BundleBooks) EachBoundedProject(fn func(project string, used, quota int64)) {
	objects, _ := b.catalog.list(Query{Kind: catalog.KindProject, Limit: maxMeasuredProjects, Keep: func(o catalog.Object) bool {
		project, ok := o.(*catalog.Project)
		return ok && project.Spec.Quotas.BundleBytes != nil
	}})
	for _, object := range objects {
		project, ok := object.(*catalog.Project)
		if !ok {
			continue
		}
		used, _, _ := b.use(project.Name)
		fn(project.Name, used, *project.Spec.Quotas.BundleBytes)
	}
}

// maxMeasuredProjects bounds the projects of which metrics are made.
const maxMeasuredProjects = 1000
