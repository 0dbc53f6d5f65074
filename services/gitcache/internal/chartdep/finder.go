// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep

import (
	"context"
	"errors"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

const (
	// patience is how long a call waits for a repository that is being fetched or copied.
	patience = 15 * time.Second
	// copyPatience is how long it waits for a newer copy, where an older one is here.
	copyPatience = 2 * time.Second
	// missMemory is how long an upstream is not asked again for a version that it does not have.
	missMemory = 30 * time.Second
	manyMisses = 10_000 // that are remembered
	maxPins    = 3      // lookups of one tag, which once suffices for
)

// Finder finds the artifacts that needs name, in the mirrors of repositories. It may be used
// concurrently.
type Finder struct {
	set    *mirroring.Set
	misses *lru.Cache[missKey, time.Time] // until when the upstream is not asked again
}

// missKey names a version that a repository did not have.
type missKey struct{ uid, name, version string }

// NewFinder returns a Finder.
func NewFinder(set *mirroring.Set) *Finder {
	misses, _ := lru.New[missKey, time.Time](manyMisses) // fails only for a limit that is not positive
	return &Finder{set: set, misses: misses}
}

// Find returns the artifact that a need names, as the owner of its repository has it, or as it is
// mirrored here where no owner answers. It has the upstream asked once for a version that is not known.
// It waits a bounded time. Errors are *UnavailableError, *FetchError and the context's.
func (f *Finder) Find(ctx context.Context, n Need) (Artifact, error) {
	r, err := f.repository(n)
	if err != nil {
		return Artifact{}, err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &search{finder: f, need: n, repository: r, selector: mirror.Selector{
		Kind: mirror.SelectTag, Value: n.Version, Within: within(r.Definition().Type, n.Name),
	}}
	commit, err := s.run(limited)
	if ctx.Err() != nil {
		return Artifact{}, context.Cause(ctx)
	}
	if err != nil {
		return Artifact{}, err
	}
	return Artifact{UID: r.Definition().UID, ID: artifact.ID{Digest: commit}.String()}, nil
}

func within(kind upstream.Type, chart string) string {
	if kind == upstream.TypeHelm {
		return mirror.ChartPrefix(chart)
	}
	return mirror.TagPrefix
}

// Discard has the damaged mirror of a repository fetched again.
func (f *Finder) Discard(uid string) {
	if r, err := f.set.Find(uid); err == nil {
		r.DiscardContent()
	}
}

// repository returns the listed repository that a need is about. A repository that is defined but
// not listed is treated as if it did not exist.
func (f *Finder) repository(n Need) (*mirroring.Repository, error) {
	if said := n.problem(); said != "" {
		return nil, n.Unavailable("%s", said)
	}
	for _, name := range n.Allowed.Names() {
		r, err := f.set.Get(name)
		if err == nil && n.places(name, r.Definition().Definition) {
			return r, nil
		}
	}
	if alias, ok := aliasOf(n.Repository); ok {
		return nil, n.Unavailable("Define a Helm repository with the name %.63q in Leat, "+
			"and list it under chartRepositories of this repository.", alias)
	}
	at := n.Repository
	if strings.HasPrefix(at, upstream.SchemeOCI) {
		at = strings.TrimRight(at, "/") + "/" + n.Name
	}
	return nil, n.Unavailable("Define a repository with the URL %.2048s in Leat, if there is none yet, "+
		"and list its name under chartRepositories of this repository.", at)
}

// search is for one artifact.
type search struct {
	finder     *Finder
	need       Need
	repository *mirroring.Repository
	selector   mirror.Selector
	pins       int
}

// run returns the digest that the need's version has.
func (s *search) run(ctx context.Context) (commit string, err error) {
	if err := s.repository.AwaitLoaded(ctx); err != nil {
		return "", s.need.Failed(s.notReady())
	}
	s.catchUp(ctx)
	pace := backoff.Policy{Initial: 100 * time.Millisecond, Max: time.Second}
	for attempt := 0; ; attempt++ {
		c, err := s.repository.Content()
		if err == nil {
			return s.resolve(ctx, c)
		}
		if s.repository.State().Problem != nil || backoff.Wait(ctx, pace.Delay(attempt)) != nil {
			return "", s.need.Failed(s.notReady())
		}
		s.catchUp(ctx)
	}
}

// notReady is why the repository delivers nothing.
func (s *search) notReady() error {
	return &mirror.NotReadyError{Repository: s.repository.Definition().Name, Problem: s.repository.State().Problem}
}

// catchUp copies what the owner has, where this replica does not follow it anyway. Without that,
// two replicas could take one version for two contents for longer than a copy takes. A mirror that
// cannot be copied is used as it is here.
func (s *search) catchUp(ctx context.Context) {
	if s.repository.Keeps(ctx) {
		return
	}
	if _, err := s.repository.Content(); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, copyPatience)
		defer cancel()
	}
	_ = s.repository.Borrow(ctx)
}

// resolve returns the digest of the version. A tag that is known by name alone is looked up; a
// version that is not known is asked for once.
func (s *search) resolve(ctx context.Context, c mirror.Content) (commit string, err error) {
	isRefreshed := false
	for {
		commit, err = c.Resolve(s.selector)
		if err == nil {
			return commit, nil
		}
		unpinned, isUnpinned := errors.AsType[*mirror.UnpinnedError](err)
		switch {
		case isUnpinned && s.pins < maxPins:
			s.pins++
			if err := s.repository.Pin(ctx, unpinned.Names); err != nil {
				return "", s.need.Failed(err)
			}
		case errors.Is(err, mirror.ErrRefNotFound) && !isRefreshed && s.mayRefresh():
			isRefreshed = true
			if err := s.refresh(ctx); err != nil {
				return "", err
			}
		case errors.Is(err, mirror.ErrRefNotFound):
			return "", s.unknown(err)
		default:
			return "", s.need.Failed(err)
		}
		if c, err = s.repository.Content(); err != nil {
			return "", s.need.Failed(err)
		}
	}
}

func (s *search) missKey() missKey {
	return missKey{s.repository.Definition().UID, s.need.Name, s.need.Version}
}

// mayRefresh reports whether the upstream was not asked for the version a moment ago.
func (s *search) mayRefresh() bool {
	until, ok := s.finder.misses.Get(s.missKey())
	return !ok || time.Now().After(until)
}

// refresh has the upstream asked. While it is away, the mirror counts, and the version may yet turn
// up.
func (s *search) refresh(ctx context.Context) error {
	problem, err := s.finder.set.Refresh(ctx, s.repository.Definition().Name, true)
	switch {
	case err != nil:
		return s.need.Failed(err)
	case problem != nil && problem.Reason != reason.UpstreamRepublished: // which does not keep it from being fetched
		return s.need.Failed(&mirror.NotReadyError{Repository: s.repository.Definition().Name, Problem: problem})
	}
	s.finder.misses.Add(s.missKey(), time.Now().Add(missMemory))
	if s.repository.Epoch() == 0 {
		_ = s.repository.Borrow(ctx) // what the owner has just fetched; without it the version stays unknown
	}
	return nil
}

// unknown is the error about a version that the repository does not have.
func (s *search) unknown(err error) error {
	ref, ok := errors.AsType[*mirror.RefError](err)
	if !ok {
		return s.need.Failed(err)
	}
	def := s.repository.Definition()
	name := def.Name
	if len(ref.Close) == 0 && def.Charts != "" {
		return s.need.Unavailable("The repository %q has no version of the chart %s, or does not mirror it: "+
			"list the chart under charts of that repository, or correct the dependency's name.", name, s.need.Name)
	}
	if len(ref.Close) == 0 {
		return s.need.Unavailable("The repository %q has no version of the chart %s. Publish it, or correct the dependency's name.", name, s.need.Name)
	}
	var versions []string
	for _, full := range ref.Close {
		versions = append(versions, strings.TrimPrefix(strings.TrimPrefix(full, s.selector.Within), mirror.TagPrefix))
	}
	return s.need.Unavailable("The repository %q does not have this version; it has, for example, %s. "+
		"Publish the version, or run helm dependency update and commit what it changes.", name, strings.Join(versions, ", "))
}
