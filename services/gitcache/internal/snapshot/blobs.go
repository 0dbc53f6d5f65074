// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// Blobs fetches the content of files into partial mirrors. It may be used concurrently.
type Blobs interface {
	// FetchBlobs makes the mirror of that UID hold the blobs, and waits for that. Errors are
	// *mirror.UpstreamError, *mirror.QuietError, mirror.ErrNotOwner, the context's and what other
	// replicas answer.
	FetchBlobs(ctx context.Context, uid string, ids []string) error
}

// asAbsent turns a *content.AbsentError into an *absentError, and returns other errors as they are.
// uid is that of the mirror that was read.
func asAbsent(uid string, err error) error {
	if absent, ok := errors.AsType[*content.AbsentError](err); ok {
		return &absentError{blobs: map[string][]string{uid: absent.IDs}}
	}
	return err
}

// checkBlobs returns an error unless the mirrors hold the content of all leaves. One *absentError
// lists all that they lack, so that the owner asks the upstream once.
func checkBlobs(ctx context.Context, mirrors *mirrorReader, leaves []leaf) error {
	ids := map[string][]string{}
	for _, l := range leaves {
		ids[l.uid] = append(ids[l.uid], l.id)
	}
	lacks := &absentError{blobs: map[string][]string{}}
	for uid, wanted := range ids {
		r, err := mirrors.open(ctx, uid)
		if err != nil {
			return err
		}
		absent, err := r.Absent(ctx, wanted)
		if err != nil {
			return err
		}
		if len(absent) > 0 {
			lacks.blobs[uid] = absent
		}
	}
	if len(lacks.blobs) > 0 {
		return lacks
	}
	return nil
}

// fetchBlobs fetches what partial mirrors lack, one mirror after the other.
func (b *Builder) fetchBlobs(ctx context.Context, blobs map[string][]string) error {
	for uid, ids := range blobs {
		if b.params.Blobs == nil {
			return &content.AbsentError{IDs: ids}
		}
		if err := b.params.Blobs.FetchBlobs(ctx, uid, ids); err != nil {
			return err
		}
	}
	return nil
}
