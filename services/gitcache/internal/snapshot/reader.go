// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"io"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// place is a repository whose content a bundle holds, at a commit. Places form a tree: below the
// repository that is bundled are its submodules, and below these are theirs. What is packed for a
// chart is a place, too: an artifact, or another folder of the same commit.
type place struct {
	uid, commit string
	prefix      string          // of its paths in the repository that is bundled; empty for that one itself
	link        *submodule.Link // nil for the repository that is bundled
	above       *place          // the one whose submodule it is, or one of whose charts needs this one
	need        *chartdep.Need  // the dependency of a chart that it is; nil for any other
	// copyOf is the place whose folder is packed for a chart. Nil: the place is not such a copy.
	copyOf *place
}

// shownPrefix returns the prefix that paths of the place have for people.
func (p *place) shownPrefix() string {
	for p.copyOf != nil {
		p = p.copyOf
	}
	return p.prefix
}

// root is the repository that is bundled.
func (p *place) root() *place {
	for p.above != nil {
		p = p.above
	}
	return p
}

// mirrorReader opens mirrors for one build, one at a time: the package comment says why.
type mirrorReader struct {
	mirrors content.Opener
	uid     string
	reader  content.Reader
}

// open returns a reader of that repository, which is good until the next call.
func (s *mirrorReader) open(ctx context.Context, uid string) (content.Reader, error) {
	if s.reader != nil && s.uid == uid {
		return s.reader, nil
	}
	s.Close()
	r, err := s.mirrors.Open(ctx, uid)
	if err != nil {
		return nil, err
	}
	s.uid, s.reader = uid, r
	return r, nil
}

// Close gives the reader back.
func (s *mirrorReader) Close() {
	if s.reader != nil {
		_ = s.reader.Close() // nothing was written
		s.reader = nil
	}
}

// readText reads a file that a person wrote, and closes it. It returns false for one of more than
// maxText bytes, which nobody writes.
func readText(file content.File) (text []byte, ok bool, err error) {
	text, err = io.ReadAll(io.LimitReader(file, maxText+1))
	return text, len(text) <= maxText, errors.Join(err, file.Close())
}

// maxText bounds the bytes of ignore files and of files with settings.
const maxText = 256 << 10
