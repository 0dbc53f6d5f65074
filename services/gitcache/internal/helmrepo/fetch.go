// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Fetch implements [mirror.Upstream]. Admit is not called: nothing is verified.
func (u *Upstream) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	c, err := u.fetch(ctx, p)
	if err != nil {
		return mirror.Content{}, u.explain(ctx, err, p)
	}
	return c, nil
}

func (u *Upstream) fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	selection, err := chartindex.NewSelection(p.Definition.Charts.Names())
	if err != nil {
		return mirror.Content{}, &mirror.FieldError{Field: "charts", Message: "It holds a pattern that is not one."}
	}
	client, err := u.dial(p)
	if err != nil {
		return mirror.Content{}, err
	}
	defer client.close()
	before := u.recall(ctx, p)
	index, err := client.getIndex(ctx, u.newSpool(), before.validatorsFor(p))
	if err != nil {
		return mirror.Content{}, err
	}
	if index.isUnchanged() {
		return u.params.Mirrors.Unchanged(p)
	}
	defer index.close()
	if before.isCurrent(p) && index.sum == before.Sum { // of a server that does not know whether it has changed
		return u.params.Mirrors.Unchanged(p)
	}
	known, err := u.recallAll(p.Definition.UID)
	if err != nil {
		u.params.Logger.WarnContext(ctx, "memo of the mirror not read, whole index is decoded", slog.String("leat.repository", p.Definition.Name), slog.Any("error", err))
	}
	listed, err := chartindex.Parse(ctx, index.source(), chartindex.Params{Charts: selection, Before: known.index})
	if err != nil {
		return mirror.Content{}, unreadable(err)
	}
	if listed.Skipped > 0 && listed.Versions() == 0 {
		return mirror.Content{}, &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: fmt.Sprintf("The index has %d entries, and none can be used: %s.", listed.Skipped, strings.Join(listed.Reasons[:1], "")),
		}
	}
	u.reportSkipped(ctx, p, before, listed)
	releases := listReleases(client.base, listed)
	refs, withdrawn := decision{
		have: p.Have.Refs, isImmutable: p.Definition.Immutable, notes: known.Notes, withdrawn: known.Withdrawn,
		holds: func(id string) bool { return u.params.Mirrors.Has(p.Definition.UID, artifact.ID{Digest: id}) },
	}.decide(releases)
	after := memo{header: index.header(p, listed), index: listed, footer: footer{Notes: known.Notes.keep(releases), Withdrawn: withdrawn}}
	return u.params.Mirrors.Accept(ctx, p, mirror.Content{Refs: refs}, after.write)
}

// reportSkipped logs how many entries of the index cannot be used, if that is news.
func (u *Upstream) reportSkipped(ctx context.Context, p mirror.FetchParams, before header, listed *chartindex.Index) {
	if listed.Skipped == 0 || before.Skipped == listed.Skipped && slices.Equal(before.Reasons, listed.Reasons) {
		return
	}
	u.params.Logger.WarnContext(ctx, "index has entries that cannot be used", slog.String("leat.repository", p.Definition.Name),
		slog.Int("entries", listed.Skipped), slog.Any("reasons", listed.Reasons))
}

// unreadable returns the error of an index that cannot be read as a *mirror.UpstreamError, and other
// errors as they are.
func unreadable(err error) error {
	bad, isBad := errors.AsType[*chartindex.FormatError](err)
	if isBad {
		return &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: "The repository's " + indexFile + " cannot be used: " + bad.Error() + ".",
		}
	}
	many, isMany := errors.AsType[*chartindex.TooManyError](err)
	if isMany {
		return &mirror.UpstreamError{Reason: reason.UpstreamProtocol, Message: "The repository is too large: " + many.Error() + " of its spec."}
	}
	return err
}
