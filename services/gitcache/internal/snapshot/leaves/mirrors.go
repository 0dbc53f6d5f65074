// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leaves

import (
	"context"
	"errors"
	"fmt"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// Blobs fetches the content of files into partial mirrors. It may be used concurrently.
type Blobs interface {
	// FetchBlobs makes the mirror of that UID hold the blobs, and waits for that. Errors are
	// *mirror.UpstreamError, *mirror.QuietError, mirror.ErrNotOwner, the context's and what other
	// replicas answer.
	FetchBlobs(ctx context.Context, uid string, ids []string) error
}

// Discarder has damaged mirrors fetched again. It may be used concurrently.
type Discarder interface {
	// Discard has the mirror of that UID fetched again.
	Discard(uid string)
}

// AbsentError ends a step of a build that needs content outside the mirrors.
type AbsentError struct {
	// Fetch fetches all of it that the step could see, and waits for that. It is called with no
	// mirror open and outside the bound of builds, because it may take long.
	Fetch func(ctx context.Context) error
}

// Error implements error.
func (e *AbsentError) Error() string { return "content has to be fetched first" }

// Mirrors are the mirrors that builds read.
type Mirrors struct {
	content.Opener
	// Blobs fetches what partial mirrors lack. Nil: no mirror is partial.
	Blobs Blobs
	// Submodules and Charts discard mirrors of submodules and of repositories of charts. Nil: there
	// are none.
	Submodules, Charts Discarder
}

// Fetch fetches blobs that partial mirrors lack, by the UIDs of these, one mirror after the other.
func (m Mirrors) Fetch(ctx context.Context, blobs map[string][]string) error {
	for uid, ids := range blobs {
		if m.Blobs == nil {
			return &content.AbsentError{IDs: ids}
		}
		if err := m.Blobs.FetchBlobs(ctx, uid, ids); err != nil {
			return err
		}
	}
	return nil
}

// absent returns an *AbsentError about blobs.
func (m Mirrors) absent(blobs map[string][]string) error {
	return &AbsentError{Fetch: func(ctx context.Context) error { return m.Fetch(ctx, blobs) }}
}

// Blame has the mirror of a submodule, or of a chart's dependency, fetched again where err is its
// damage, and reports that it is not ready. Otherwise the caller would discard the mirror of the
// repository that is bundled.
func (m Mirrors) Blame(p *Place, err error) error {
	if !errors.Is(err, content.ErrDamaged) {
		return err
	}
	if p.Need != nil {
		m.Charts.Discard(p.UID)
		return p.Need.Failed(mirror.ErrNoMirror)
	}
	if p.Link == nil {
		return err
	}
	m.Submodules.Discard(p.UID)
	return &submodule.NotReadyError{Path: p.Link.Path, URL: p.Link.URL, Problem: nil}
}

// Reader opens mirrors for one build, one at a time.
type Reader struct {
	Mirrors
	uid    string
	reader content.Reader
}

// Open returns a reader of the mirror of that UID, which is good until the next call.
func (r *Reader) Open(ctx context.Context, uid string) (content.Reader, error) {
	if r.reader != nil && r.uid == uid {
		return r.reader, nil
	}
	r.Close()
	opened, err := r.Mirrors.Open(ctx, uid)
	if err != nil {
		return nil, err
	}
	r.uid, r.reader = uid, opened
	return opened, nil
}

// OpenLeaf opens the content of a leaf, which is good until the next call of Open.
func (r *Reader) OpenLeaf(ctx context.Context, l Leaf) (content.File, error) {
	opened, err := r.Open(ctx, l.UID)
	if err != nil {
		return content.File{}, err
	}
	file, err := opened.Blob(ctx, l.ID)
	if err != nil {
		return content.File{}, r.Blame(l.Place, fmt.Errorf("open %q: %w", l.Path, err))
	}
	return file, nil
}

// Close gives the open mirror back.
func (r *Reader) Close() {
	if r.reader != nil {
		_ = r.reader.Close() // nothing was written
		r.reader = nil
	}
}

// Absent turns a *content.AbsentError about the mirror that was opened last into an [*AbsentError],
// and returns other errors as they are.
func (r *Reader) Absent(err error) error {
	if lacks, ok := errors.AsType[*content.AbsentError](err); ok {
		return r.absent(map[string][]string{r.uid: lacks.IDs})
	}
	return err
}

// Check returns an error unless the mirrors hold the content of all leaves. One [*AbsentError] is
// about all that they lack, so that the owner asks the upstream once.
func (r *Reader) Check(ctx context.Context, all []Leaf) error {
	ids := map[string][]string{}
	for _, l := range all {
		ids[l.UID] = append(ids[l.UID], l.ID)
	}
	blobs := map[string][]string{}
	for uid, wanted := range ids {
		opened, err := r.Open(ctx, uid)
		if err != nil {
			return err
		}
		absent, err := opened.Absent(ctx, wanted)
		if err != nil {
			return err
		}
		if len(absent) > 0 {
			blobs[uid] = absent
		}
	}
	if len(blobs) > 0 {
		return r.absent(blobs)
	}
	return nil
}
