// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

const (
	// lfsHeader is how every Git LFS pointer begins; a pointer is shorter than lfsMaxSize.
	lfsHeader  = "version https://git-lfs.github.com/spec/"
	lfsMaxSize = 1024
)

// packer writes leaves into a bundle.
type packer struct {
	reader content.Reader
	out    *bundle.Writer
	body   *bufio.Reader // of the file that is being added; nil before the first
}

func (p *packer) addAll(ctx context.Context, leaves []leaf) error {
	for _, l := range leaves {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.add(ctx, l); err != nil {
			return refine(l, err)
		}
	}
	return nil
}

// refine turns what a bundle refuses into what the repository's owner has to change.
func refine(l leaf, err error) error {
	if entry, ok := errors.AsType[*bundle.EntryError](err); ok {
		return &UnsupportedError{Path: l.path, Reason: entry.Reason}
	}
	return err
}

func (p *packer) add(ctx context.Context, l leaf) error {
	if l.kind == content.KindSubmodule {
		return &UnsupportedError{Path: l.path, Reason: "is a submodule; this version does not fetch submodules"}
	}
	file, err := p.reader.Blob(ctx, l.id)
	if err != nil {
		return fmt.Errorf("open %q: %w", l.path, err)
	}
	defer func() { _ = file.Close() }()
	if l.kind == content.KindSymlink {
		return p.addSymlink(l, file)
	}
	return p.addFile(l, file)
}

func (p *packer) addSymlink(l leaf, file content.File) error {
	if file.Size > bundle.MaxNameBytes {
		return &UnsupportedError{Path: l.path, Reason: "is a symbolic link with an endless target"}
	}
	target, err := io.ReadAll(io.LimitReader(file, bundle.MaxNameBytes+1))
	if err != nil {
		return fmt.Errorf("read %q: %w", l.path, err)
	}
	return p.out.WriteSymlink(l.name, string(target))
}

func (p *packer) addFile(l leaf, file content.File) error {
	if p.body == nil {
		p.body = bufio.NewReader(nil)
	}
	p.body.Reset(file)
	if file.Size < lfsMaxSize {
		if start, _ := p.body.Peek(len(lfsHeader)); bytes.Equal(start, []byte(lfsHeader)) {
			return &UnsupportedError{Path: l.path, Reason: "is a Git LFS pointer; this version does not fetch LFS content"}
		}
	}
	return p.out.WriteFile(l.name, l.kind == content.KindExecutable, file.Size, p.body)
}
