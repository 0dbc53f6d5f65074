// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/leatdev/leat/internal/contract/reason"
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
	f := &filling{upstream: u, params: p, client: client, notes: known.Notes}
	err = f.getAll(ctx, wanted, listReleases(client.base, known.index))
	return f.params.Have, err // what has arrived counts, whatever became of the others
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
	params   mirror.FetchParams // with what the mirror holds now
	client   *client
	notes    notes // as they were when the fill began
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
	}
	return nil
}

// get fetches one archive, and makes the mirror hold its content. The mirror is free while the
// archive arrives.
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
	staged, err := f.upstream.params.Mirrors.Stage(ctx, f.params.Definition.UID, artifact.ID{Digest: r.id}, func(sink artifact.Sink) (err error) {
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
	defer staged.Discard()
	f.params, err = f.params.Write(ctx, func(p mirror.FetchParams) (mirror.Content, error) {
		if err := staged.Keep(); err != nil {
			return p.Have, err
		}
		note, err := f.note(r, want, got)
		if err != nil {
			return p.Have, err
		}
		return f.upstream.params.Mirrors.Amend(p, p.Have, note)
	})
	return err
}

// note returns what writes the memo with the digest that an archive had the first time; nil where there
// is nothing to note. It is called when the mirror may be written: a fetch may have left another memo
// meanwhile.
func (f *filling) note(r release, want, got string) (func(io.Writer) error, error) {
	if r.hasDigest || want != "" {
		return nil, nil
	}
	known, err := f.upstream.recallAll(f.params.Definition.UID)
	if err != nil {
		return nil, fmt.Errorf("read memo: %w", err)
	}
	if known.Notes == nil {
		known.Notes = notes{}
	}
	known.Notes[r.id] = got
	return known.write, nil
}
