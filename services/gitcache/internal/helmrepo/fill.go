// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Fill implements [mirror.Upstream]: it fetches archives.
func (u *Upstream) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	c, err := u.fill(ctx, p, ids)
	if err != nil {
		return mirror.Content{}, u.explain(ctx, err, p)
	}
	return c, nil
}

func (u *Upstream) fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	wanted, err := u.absent(p, ids)
	if err != nil || len(wanted) == 0 { // another call was faster
		return p.Have, err
	}
	client, err := u.dial(p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer client.close()
	known, err := u.recallAll(p.Definition.UID)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("read memo: %w", err)
	}
	if known.Notes == nil {
		known.Notes = notes{}
	}
	f := &filling{upstream: u, params: p, client: client, notes: known.Notes}
	failed := f.getAll(ctx, wanted, listReleases(client.base, known.index))
	if f.kept == 0 {
		return p.Have, failed
	}
	// What has arrived counts, whatever became of the others.
	write := known.write
	if !f.hasNoted {
		write = nil
	}
	filled, err := u.params.Mirrors.Amend(p, p.Have, write)
	if failed != nil {
		return mirror.Content{}, failed
	}
	return filled, err
}

// absent returns the digests of the artifacts that the mirror lacks.
func (u *Upstream) absent(p mirror.FetchParams, ids []string) ([]string, error) {
	var absent []string
	for _, text := range ids {
		id, err := artifact.ParseID(text)
		if err != nil {
			return nil, err
		}
		if id.Layer != (artifact.Layer{}) {
			return nil, &mirror.FieldError{Field: "layer", Message: "A chart has no layers; leave it out."}
		}
		if !u.params.Mirrors.Has(p.Definition.UID, id) && !slices.Contains(absent, id.Digest) {
			absent = append(absent, id.Digest)
		}
	}
	return absent, nil
}

// filling fetches archives for one fill.
type filling struct {
	upstream *Upstream
	params   mirror.FetchParams
	client   *client
	notes    notes
	kept     int
	hasNoted bool // notes has something new
}

// getAll fetches the archives with those ids, one after the other, until one fails.
func (f *filling) getAll(ctx context.Context, ids []string, releases []release) error {
	byID := make(map[string]release, len(ids))
	for _, id := range ids {
		byID[id] = release{}
	}
	for _, r := range releases {
		if found, isWanted := byID[r.id]; isWanted && found.url == "" {
			byID[r.id] = r
		}
	}
	for _, id := range ids {
		r := byID[id]
		if r.url == "" {
			return &mirror.ArtifactError{
				Reason:  reason.RefNotFound,
				Message: fmt.Sprintf("The index no longer lists an archive with the digest %s, and it was never fetched; select another version.", id),
			}
		}
		if err := f.get(ctx, r); err != nil {
			return err
		}
		f.kept++
	}
	return nil
}

// get fetches one archive, and keeps what is in it.
func (f *filling) get(ctx context.Context, r release) error {
	want := r.id
	if !r.hasDigest {
		want = f.notes[r.id] // empty: this is the first time
	}
	address := r.address(f.client.base)
	resp, err := f.client.getArchive(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	limits := f.upstream.params.Limits.WithDefaults()
	got := ""
	err = f.upstream.params.Mirrors.Keep(ctx, f.params.Definition.UID, artifact.ID{Digest: r.id}, func(sink artifact.Sink) (err error) {
		got, err = artifact.Consume(f.client.count(resp.Body), want, limits.Bytes, func(body io.Reader) error {
			return artifact.Unpack(ctx, body, artifact.Params{Chart: true, Limits: limits}, sink)
		})
		return err
	})
	if wrong, ok := errors.AsType[*artifact.MismatchError](err); ok {
		return &mirror.ArtifactError{
			Reason: reason.UpstreamRepublished,
			Message: fmt.Sprintf("The archive at %s has the digest %s instead of %s: it was published again after the index was written, "+
				"or is damaged. Write the index again, or restore the archive.", address, wrong.Got, wrong.Want),
		}
	}
	if err != nil {
		return artifact.Unusable(err)
	}
	if !r.hasDigest && want == "" {
		f.notes[r.id] = got
		f.hasNoted = true
	}
	return nil
}
