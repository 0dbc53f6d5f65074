// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// packer writes leaves into a bundle.
type packer struct {
	objects objects
	mirrors *leaves.Reader
	out     *bundle.Writer
}

// addAll writes the leaves. At the first object that is not here it stops writing, and lists the
// objects of all further leaves instead.
func (p *packer) addAll(ctx context.Context, all []leaves.Leaf) error {
	for i, l := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := p.add(ctx, l)
		if errors.Is(err, lfs.ErrAbsent) {
			return p.objects.listAbsent(ctx, all[i:])
		}
		if err != nil {
			return explain(l, err)
		}
	}
	return nil
}

// explain turns what a bundle refuses into what the repository's owner has to change.
func explain(l leaves.Leaf, err error) error {
	entry, ok := errors.AsType[*bundle.EntryError](err)
	switch {
	case ok && entry.Reason == bundle.ReasonOutside:
		return &leaves.UnsupportedError{Path: l.Path, Reason: entry.Reason +
			"; set the source's root to a folder that holds the link and its target, such as \".\", " +
			"or leave the link out with exclude"}
	case ok:
		return &leaves.UnsupportedError{Path: l.Path, Reason: entry.Reason}
	}
	return err
}

func (p *packer) add(ctx context.Context, l leaves.Leaf) error {
	file, err := p.mirrors.OpenLeaf(ctx, l)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if l.Kind == content.KindSymlink {
		return p.addSymlink(l, file)
	}
	return p.addFile(l, file)
}

func (p *packer) addSymlink(l leaves.Leaf, file content.File) error {
	if file.Size > bundle.MaxNameBytes {
		return &leaves.UnsupportedError{Path: l.Path, Reason: "is a symbolic link with an endless target"}
	}
	target, err := io.ReadAll(io.LimitReader(file, bundle.MaxNameBytes+1))
	if err != nil {
		return fmt.Errorf("read %q: %w", l.Path, err)
	}
	if l.CopyOf != nil { // the link is elsewhere than in the repository
		if err := bundle.CheckTarget(strings.TrimPrefix(l.Path, l.Prefix), string(target)); err != nil {
			return &leaves.UnsupportedError{
				Path:   l.Path,
				Reason: "is a symbolic link that leaves the folder of a chart which another one depends on",
			}
		}
	}
	return p.out.WriteSymlink(l.Name, string(target))
}

func (p *packer) addFile(l leaves.Leaf, file content.File) error {
	pointer, ok, text, err := pointerIn(l, file)
	switch {
	case err != nil:
		return err
	case ok && p.objects.store == nil:
		return &leaves.UnsupportedError{Path: l.Path, Reason: "is a Git LFS pointer, and none are resolved here"}
	case ok:
		return p.addObject(l, pointer)
	}
	// The bytes that were read to recognise a pointer come first; the rest, if any, follows.
	return p.out.WriteFile(
		l.Name, l.Kind == content.KindExecutable, file.Size, io.MultiReader(bytes.NewReader(text), file),
	)
}

// addObject writes the object behind a pointer. lfs.ErrAbsent: nothing was written, because it is
// not here.
func (p *packer) addObject(l leaves.Leaf, pointer lfs.Pointer) error {
	object, err := p.objects.store.Open(l.UID, pointer)
	if err != nil {
		return err
	}
	defer func() { _ = object.Close() }()
	return p.out.WriteFile(l.Name, l.Kind == content.KindExecutable, pointer.Size, object)
}
