// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitconfig"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// Objects holds what repositories keep outside Git. It may be used concurrently.
type Objects interface {
	// Open opens what a pointer of a repository stands for. lfs.ErrAbsent: it has to be obtained
	// first.
	Open(uid string, p lfs.Pointer) (io.ReadCloser, error)
	// Obtain gets objects, from the server at url where that is not empty. It waits until they are
	// here. Errors are *lfs.MissingError, *lfs.FileError, the context's.
	Obtain(ctx context.Context, uid, url string, wants []lfs.Want) error
}

// absentError ends a build that needs what has to be fetched first. Its caller handles it with no
// mirror open and outside the bound of builds, because fetching may take long. Only fields of one of
// the groups are set.
type absentError struct {
	places map[*place][]lfs.Want // objects of Git LFS, by the repository that needs them
	links  []submodule.Link      // whose mirrors do not have the commit
	blobs  map[string][]string   // UID of a partial mirror → ids

	needs     []chartdep.Need // dependencies of charts, of which the artifact is not known
	artifacts []wantedArtifact
}

// isSet reports whether anything is absent.
func (e *absentError) isSet() bool {
	return len(e.places)+len(e.links)+len(e.blobs)+len(e.needs)+len(e.artifacts) > 0
}

// Error implements error.
func (e *absentError) Error() string { return "content has to be fetched first" }

// pointerIn returns the pointer that a file is. Where it is ordinary content ok is false, and head
// is what was read of it.
func pointerIn(l leaf, file content.File) (p lfs.Pointer, ok bool, head []byte, err error) {
	if file.Size >= lfs.MaxPointerBytes {
		return p, false, nil, nil
	}
	head, err = io.ReadAll(file)
	if err != nil {
		return p, false, nil, fmt.Errorf("read %q: %w", l.path, err)
	}
	p, err = lfs.Parse(head)
	if errors.Is(err, lfs.ErrExtended) {
		return p, false, nil, &UnsupportedError{Path: l.path, Reason: "is a Git LFS pointer with extensions, which only a program of its author's can resolve"}
	}
	return p, err == nil, head, nil
}

// listAbsent lists all objects that leaves need and that are not here.
func (p *packer) listAbsent(ctx context.Context, leaves []leaf) error {
	absent := &absentError{places: map[*place][]lfs.Want{}}
	limits := p.builder.params.Limits
	left := limits.Bytes
	for _, l := range leaves {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pointer, ok, err := p.absent(ctx, l)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if left -= pointer.Size; left < 0 {
			return &bundle.LimitError{Limit: bundle.LimitBytes, Max: limits.Bytes, Name: l.name}
		}
		absent.places[l.place] = append(absent.places[l.place], lfs.Want{Pointer: pointer, Path: l.path})
	}
	return absent
}

// absent returns the pointer that a leaf is, and true if its object has to be fetched.
func (p *packer) absent(ctx context.Context, l leaf) (lfs.Pointer, bool, error) {
	if l.kind != content.KindFile && l.kind != content.KindExecutable {
		return lfs.Pointer{}, false, nil
	}
	file, err := p.open(ctx, l)
	if err != nil {
		return lfs.Pointer{}, false, err
	}
	defer func() { _ = file.Close() }()
	pointer, ok, _, err := pointerIn(l, file)
	if err != nil || !ok {
		return pointer, false, err
	}
	if limit := p.builder.params.Limits.FileBytes; pointer.Size > limit { // before anybody downloads it
		return pointer, false, &bundle.LimitError{Limit: bundle.LimitFileBytes, Max: limit, Name: l.name}
	}
	object, err := p.builder.params.Objects.Open(l.uid, pointer)
	if errors.Is(err, lfs.ErrAbsent) {
		return pointer, true, nil
	}
	if err == nil {
		err = object.Close()
	}
	return pointer, false, err
}

// fetch fetches what a build found absent, and notes in state which artifacts were found.
func (b *Builder) fetch(ctx context.Context, absent *absentError, state *chartState) error {
	found, err := b.find(ctx, absent.needs)
	if err != nil {
		return err
	}
	maps.Copy(state.found, found)
	if err := b.fetchArtifacts(ctx, absent.artifacts); err != nil {
		return err
	}
	if err := b.fetchBlobs(ctx, absent.blobs); err != nil {
		return err
	}
	if err := b.obtain(ctx, absent.links); err != nil {
		return err
	}
	for place, wants := range absent.places {
		url, err := b.lfsURL(ctx, place)
		if lacks, ok := errors.AsType[*content.AbsentError](err); ok {
			if err = b.fetchBlobs(ctx, map[string][]string{place.uid: lacks.IDs}); err == nil {
				url, err = b.lfsURL(ctx, place)
			}
		}
		if err != nil {
			return err
		}
		if err := b.params.Objects.Obtain(ctx, place.uid, url, wants); err != nil {
			return err
		}
	}
	return nil
}

// lfsURL returns which LFS server the commit itself names; "" where it names none.
func (b *Builder) lfsURL(ctx context.Context, p *place) (string, error) {
	r, err := b.params.Mirrors.Open(ctx, p.uid)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	settings, err := readConfig(ctx, r, p.commit, ".lfsconfig")
	if errors.Is(err, gitconfig.ErrSyntax) { // git-lfs would not go on; the usual server may still have it
		return "", nil
	}
	return gitconfig.Last(settings, "lfs", "", "url"), err
}

// readConfig reads a file with settings in the commit's root; there may be none.
func readConfig(ctx context.Context, r content.Reader, commit, name string) ([]gitconfig.Setting, error) {
	file, err := r.File(ctx, commit, name)
	if errors.Is(err, content.ErrPathNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, ok, err := readText(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s is longer than 256 KiB", gitconfig.ErrSyntax, name)
	}
	return gitconfig.Parse(string(text))
}
