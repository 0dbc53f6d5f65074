// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// lookups is how many tags of one repository are looked at at once.
const lookups = 4

// Fetch implements [mirror.Upstream].
func (u *Upstream) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	return u.converse(ctx, p, func(t *conversation) (mirror.Content, error) {
		names, err := t.tags(ctx)
		if err != nil {
			return mirror.Content{}, err
		}
		before, err := readMemo(u.params.Mirrors, p.Definition.UID)
		if err != nil {
			return mirror.Content{}, err
		}
		noted, wanted := before.expire(p.Have.Refs, u.params.Now())
		wanted = slices.DeleteFunc(wanted, func(name string) bool {
			_, isListed := slices.BinarySearch(names, name)
			return !isListed
		})
		looked, err := t.lookUpAll(ctx, wanted)
		if err != nil {
			return mirror.Content{}, err
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			digest, isLooked := looked[name]
			return isLooked && digest == "" // deleted since the list was made
		})
		refs, noted := noted.settle(names, looked, p.Definition.Immutable)
		if p.Have.Exists() && slices.Equal(refs, p.Have.Refs) {
			return u.params.Mirrors.Unchanged(p)
		}
		return u.params.Mirrors.Accept(ctx, p, mirror.Content{Refs: refs}, noted.write)
	})
}

// Pin implements [mirror.Pinner].
func (u *Upstream) Pin(ctx context.Context, p mirror.FetchParams, names []string) (mirror.Content, error) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		ref, ok := p.Have.Refs.Get(name)
		return !ok || ref.Object != ""
	})
	if len(names) == 0 {
		return p.Have, nil
	}
	return u.converse(ctx, p, func(t *conversation) (mirror.Content, error) {
		looked, err := t.lookUpAll(ctx, names)
		if err != nil {
			return mirror.Content{}, err
		}
		noted, err := readMemo(u.params.Mirrors, p.Definition.UID)
		if err != nil {
			return mirror.Content{}, err
		}
		all := make([]string, 0, len(p.Have.Refs))
		for _, ref := range p.Have.Refs {
			digest, isLooked := looked[ref.Name]
			switch {
			case isLooked && digest == "":
				continue // the registry does not have it
			case isLooked:
				noted = noted.pinned(ref.Name, digest, u.params.Now())
			}
			all = append(all, ref.Name)
		}
		fresh, _ := noted.settle(all, looked, p.Definition.Immutable)
		refs := make([]mirror.Ref, 0, len(fresh))
		for _, ref := range fresh {
			if _, isLooked := looked[ref.Name]; !isLooked {
				ref, _ = p.Have.Refs.Get(ref.Name)
			}
			refs = append(refs, ref)
		}
		c := p.Have
		c.Refs = mirror.NewRefs(refs)
		return u.params.Mirrors.Amend(p, c, noted.write)
	})
}

// lookUpAll returns the digests of tags by full name; "" of one that the registry does not have.
func (t *conversation) lookUpAll(ctx context.Context, names []string) (map[string]string, error) {
	var mu sync.Mutex // guards looked
	looked := make(map[string]string, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	for _, name := range names {
		group.Go(func() error {
			digest, err := t.lookUp(ctx, strings.TrimPrefix(name, mirror.TagPrefix))
			mu.Lock()
			defer mu.Unlock()
			looked[name] = digest
			return err
		})
	}
	return looked, group.Wait()
}
