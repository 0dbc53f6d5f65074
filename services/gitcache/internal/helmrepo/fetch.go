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

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Fetch implements [mirror.Upstream]. Admit is not called: signatures are not part of the mirror.
func (u *Upstream) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	c, err := u.fetch(ctx, p)
	if err != nil {
		return mirror.Content{}, u.explain(ctx, err, p)
	}
	return c, nil
}

func (u *Upstream) fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	policy, err := policyOf(p.Definition)
	if err != nil {
		return mirror.Content{}, err
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
	defer index.close()
	// A server may not know whether its index has changed.
	isSame := index.isUnchanged() || before.isCurrent(p) && index.sum == before.Sum
	asksAgain := before.isQuestionDue(u.params.Now()) || p.IsRequested && before.NextQuestion != nil
	if isSame && !asksAgain {
		return u.unchanged(p, before)
	}
	known, err := u.recallAll(p.Definition.UID)
	if err != nil {
		u.params.Logger.WarnContext(ctx, "memo of the mirror not read, whole index is decoded", slog.String("leat.repository", p.Definition.Name), slog.Any("error", err))
		isSame = false
		if index.isUnchanged() {
			if index, err = client.getIndex(ctx, u.newSpool(), validators{}); err != nil {
				return mirror.Content{}, err
			}
			defer index.close()
		}
	}
	after := known
	if !isSame {
		if after.index, err = u.parse(ctx, p, before, index, known); err != nil {
			return mirror.Content{}, err
		}
		after.header = index.header(p, after.index)
	}
	releases := listReleases(client.base, after.index)
	refs, withdrawn := decision{
		have: p.Have.Refs, isImmutable: p.Definition.Immutable, notes: known.Notes, withdrawn: known.Withdrawn,
		holds: func(id string) bool { return u.params.Mirrors.Has(p.Definition.UID, artifact.ID{Digest: id}) },
	}.decide(releases)
	after.Notes, after.Withdrawn = known.Notes.keep(releases), withdrawn
	refs, err = u.verify(ctx, &search{client: client, policy: policy, releases: releases, isRequested: p.IsRequested}, &after, p.Have, refs, nil)
	if err != nil {
		return mirror.Content{}, err
	}
	c, err := u.params.Mirrors.Accept(ctx, p, mirror.Content{Refs: refs, Policy: policy.Fingerprint()}, after.write)
	c.Notices = noticesOf(after.header.Skipped, after.header.Reasons)
	return c, err
}

// parse returns what an index lists. Charts that known has with the same text are taken over.
func (u *Upstream) parse(ctx context.Context, p mirror.FetchParams, before header, index indexCopy, known memo) (*chartindex.Index, error) {
	selection, err := chartindex.NewSelection(p.Definition.Charts.Names())
	if err != nil {
		return nil, &mirror.FieldError{Field: "charts", Message: "It holds a pattern that is not one."}
	}
	listed, err := chartindex.Parse(ctx, index.source(), chartindex.Params{Charts: selection, Before: known.index})
	if err != nil {
		return nil, unreadable(err)
	}
	if listed.Skipped > 0 && listed.Versions() == 0 {
		return nil, &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: fmt.Sprintf("The index has %d entries, and none can be used: %s.", listed.Skipped, strings.Join(listed.Reasons[:1], "")),
		}
	}
	u.reportSkipped(ctx, p, before, listed)
	return listed, nil
}

// unchanged records that the index is the one that was read last.
func (u *Upstream) unchanged(p mirror.FetchParams, before header) (mirror.Content, error) {
	c, err := u.params.Mirrors.Unchanged(p)
	c.Notices = noticesOf(before.Skipped, before.Reasons)
	return c, err
}

// noticesOf returns what people should know of the entries that an index has in vain.
func noticesOf(skipped int, reasons []string) []string {
	switch skipped {
	case 0:
		return nil
	case 1:
		return []string{"1 entry of the index cannot be used and is left out: " + strings.Join(reasons, "; ") + "."}
	}
	named := "such as"
	if len(reasons) >= skipped {
		named = "namely"
	}
	return []string{fmt.Sprintf("%d entries of the index cannot be used and are left out, %s: %s.", skipped, named, strings.Join(reasons, "; "))}
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
