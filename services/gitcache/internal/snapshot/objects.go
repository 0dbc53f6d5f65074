// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitconfig"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// Objects holds what repositories keep outside Git. It may be used concurrently.
type Objects interface {
	// Open opens the object that a pointer of a repository stands for. lfs.ErrAbsent: it has to be
	// obtained first.
	Open(uid string, p lfs.Pointer) (io.ReadCloser, error)
	// Obtain gets objects, from the server at url where that is not empty. It waits until they are
	// here. Errors are *lfs.MissingError, *lfs.FileError, the context's.
	Obtain(ctx context.Context, uid, url string, wants []lfs.Want) error
}

// pointerIn returns a file's pointer. If the file is ordinary content, ok is false, and head holds
// the bytes that were read of it.
func pointerIn(l leaves.Leaf, file content.File) (p lfs.Pointer, ok bool, head []byte, err error) {
	if file.Size >= lfs.MaxPointerBytes {
		return p, false, nil, nil
	}
	head, err = io.ReadAll(file)
	if err != nil {
		return p, false, nil, fmt.Errorf("read %q: %w", l.Path, err)
	}
	p, err = lfs.Parse(head)
	if errors.Is(err, lfs.ErrExtended) {
		return p, false, nil, &leaves.UnsupportedError{
			Path:   l.Path,
			Reason: "is a Git LFS pointer with extensions, which only a program of its author's can resolve",
		}
	}
	return p, err == nil, head, nil
}

// objects are the objects of Git LFS that one bundle needs.
type objects struct {
	store   Objects // nil: pointers are not supported
	mirrors *leaves.Reader
	limits  bundle.Limits
}

// listAbsent returns a *leaves.AbsentError about all objects that leaves need and that are not here.
func (o objects) listAbsent(ctx context.Context, all []leaves.Leaf) error {
	absent := map[*leaves.Place][]lfs.Want{} // by the repository that needs them
	left := o.limits.Bytes
	for _, l := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pointer, ok, err := o.absent(ctx, l)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if left -= pointer.Size; left < 0 {
			return &bundle.LimitError{Limit: bundle.LimitBytes, Max: o.limits.Bytes, Name: l.Name}
		}
		absent[l.Place] = append(absent[l.Place], lfs.Want{Pointer: pointer, Path: l.Path})
	}
	return &leaves.AbsentError{Fetch: func(ctx context.Context) error {
		for place, wants := range absent {
			if err := o.obtain(ctx, place, wants); err != nil {
				return err
			}
		}
		return nil
	}}
}

// absent returns the pointer that a leaf is, and true if its object has to be fetched.
func (o objects) absent(ctx context.Context, l leaves.Leaf) (lfs.Pointer, bool, error) {
	if !l.IsFile() {
		return lfs.Pointer{}, false, nil
	}
	file, err := o.mirrors.OpenLeaf(ctx, l)
	if err != nil {
		return lfs.Pointer{}, false, err
	}
	defer func() { _ = file.Close() }()
	pointer, ok, _, err := pointerIn(l, file)
	if err != nil || !ok {
		return pointer, false, err
	}
	if limit := o.limits.FileBytes; pointer.Size > limit { // before anybody downloads it
		return pointer, false, &bundle.LimitError{Limit: bundle.LimitFileBytes, Max: limit, Name: l.Name}
	}
	object, err := o.store.Open(l.UID, pointer)
	if errors.Is(err, lfs.ErrAbsent) {
		return pointer, true, nil
	}
	if err == nil {
		err = object.Close()
	}
	return pointer, false, err
}

// obtain has the objects fetched that a repository needs, and waits for them.
func (o objects) obtain(ctx context.Context, of *leaves.Place, wants []lfs.Want) error {
	url, err := o.serverURL(ctx, of)
	if lacks, ok := errors.AsType[*content.AbsentError](err); ok {
		if err = o.mirrors.Fetch(ctx, map[string][]string{of.UID: lacks.IDs}); err == nil {
			url, err = o.serverURL(ctx, of)
		}
	}
	if err != nil {
		return err
	}
	return o.store.Obtain(ctx, of.UID, url, wants)
}

// serverURL returns which LFS server the commit itself names; "" where it names none.
func (o objects) serverURL(ctx context.Context, of *leaves.Place) (string, error) {
	r, err := o.mirrors.Mirrors.Open(ctx, of.UID)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	settings, err := readConfig(ctx, r, of.Commit, ".lfsconfig")
	if errors.Is(err, gitconfig.ErrSyntax) { // git-lfs would stop here; the usual server may still have it
		return "", nil
	}
	return gitconfig.Last(settings, "lfs", "", "url"), err
}
