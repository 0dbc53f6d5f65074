// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"bytes"
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

// packer writes the leaves of a tree into a bundle.
type packer struct {
	out   *bundle.Writer
	files int
	body  *bufio.Reader // of the file that is being added; nil before the first
}

func (p *packer) add(e content.Entry) error {
	p.files++
	switch e.Kind {
	case content.KindSubmodule:
		return &UnsupportedError{Path: e.Path, Reason: "is a submodule; this version does not fetch submodules"}
	case content.KindSymlink:
		return p.addSymlink(e)
	default:
		return p.addFile(e)
	}
}

func (p *packer) addSymlink(e content.Entry) error {
	if e.Size > bundle.MaxNameBytes {
		return &UnsupportedError{Path: e.Path, Reason: "is a symbolic link with an endless target"}
	}
	r, err := e.Open()
	if err != nil {
		return fmt.Errorf("open %q: %w", e.Path, err)
	}
	target, err := io.ReadAll(io.LimitReader(r, bundle.MaxNameBytes+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read %q: %w", e.Path, err)
	}
	return p.out.WriteSymlink(e.Path, string(target))
}

func (p *packer) addFile(e content.Entry) error {
	r, err := e.Open()
	if err != nil {
		return fmt.Errorf("open %q: %w", e.Path, err)
	}
	defer func() { _ = r.Close() }()
	if p.body == nil {
		p.body = bufio.NewReader(nil)
	}
	p.body.Reset(r)
	if e.Size < lfsMaxSize {
		if start, _ := p.body.Peek(len(lfsHeader)); bytes.Equal(start, []byte(lfsHeader)) {
			return &UnsupportedError{Path: e.Path, Reason: "is a Git LFS pointer; this version does not fetch LFS content"}
		}
	}
	return p.out.WriteFile(e.Path, e.Kind == content.KindExecutable, e.Size, p.body)
}
