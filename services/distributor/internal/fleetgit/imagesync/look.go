// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/services/distributor/internal/delivery/push"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagemark"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/imagetag"
)

// Procedure is the call in records of pushes.
const Procedure = "imagepolicy"

const (
	// lookTimeout bounds one look.
	lookTimeout = 2 * time.Minute
	// lookedEvery is how old the time of the stored look may become while nothing else changes.
	lookedEvery = 10 * time.Minute
	// pushTries bounds the pushes of one look: the branch may move between reading and pushing.
	pushTries = 3
	// maxMessage bounds the kept part of an error.
	maxMessage = 512
)

// lookAt is what a look begins with.
type lookAt struct {
	policy *catalog.ImagePolicy
	last   State
	// settled is what the last look found done; empty: the lines are read.
	settled settled
	order   int64
	// isAsked is set if a person asked for the look: a pull request is then made again.
	isAsked bool
}

// settled are the content of the folder and the values for which nothing was left to be done. It is comparable.
type settled struct{ content, tag, digest string }

// found is the outcome of a look.
type found struct {
	state   State
	settled settled
	// isFailure is set if the look is to be repeated after a pause, of at least retryAfter.
	isFailure  bool
	retryAfter time.Duration
}

// problemError is a problem that people have to solve in Git, at the registry, or in the policy.
type problemError struct {
	reason  reason.Reason
	message string
}

// Error implements error.
func (e *problemError) Error() string { return e.message }

// looker looks at policies for one term.
type looker struct {
	p    Params
	term int64
}

// look looks at a policy, stores the outcome, and returns it. The error is the store's, or the context's.
func (l *looker) look(ctx context.Context, a lookAt) (found, error) {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	next := found{state: a.last}
	next.state.LookedAt, next.state.Asked = catalog.Now(), a.order
	made, err := l.follow(looking, a, &next)
	if ctx.Err() != nil {
		return found{state: a.last}, context.Cause(ctx)
	}
	if errors.Is(err, election.ErrDeposed) || errors.Is(err, catalog.ErrUnavailable) {
		return found{state: a.last}, err
	}
	next.state.Problem = l.problemOf(err, a.last.Problem, &next)
	if err != nil {
		next.settled = settled{}
	}
	l.p.Metrics.looked(ctx, next.state.Problem)
	if made == nil && !isNews(a.last, next.state) {
		return next, nil
	}
	if made != nil {
		ctx = catalog.WithOrigin(ctx, catalog.Origin{
			Subject: Subject(a.policy.Name), SubjectUID: a.policy.UID, Procedure: Procedure, Reason: made.Reason,
		})
	}
	return next, l.p.Store.Save(ctx, l.term, a.policy.UID, next.state, made)
}

// Subject returns what records call an image policy.
func Subject(policy string) string { return "imagepolicy:" + objectname.Display(policy) }

// isNews reports whether a state is to be stored.
func isNews(last, next State) bool {
	if next.LookedAt.Sub(last.LookedAt) >= lookedEvery {
		return true
	}
	next.LookedAt = last.LookedAt
	if last.Problem != nil && next.Problem != nil && *last.Problem == *next.Problem {
		next.Problem = last.Problem
	}
	return last != next
}

// problemOf returns the problem that an error is, or nil, and sets when to look again.
func (l *looker) problemOf(err error, last *catalog.Problem, next *found) *catalog.Problem {
	if err == nil {
		return nil
	}
	problem := &catalog.Problem{Reason: reason.Internal, Message: bounded(err.Error()), Since: catalog.Now()}
	next.isFailure = true
	if own, ok := errors.AsType[*problemError](err); ok {
		problem.Reason, next.isFailure = own.reason, false
	} else if failure, ok := errors.AsType[*resolve.Failure](err); ok {
		problem.Reason, problem.Message, next.retryAfter = failure.Reason, bounded(failure.Message), failure.RetryAfter
	} else if errors.Is(err, context.DeadlineExceeded) {
		problem.Reason, problem.Message = reason.DeadlineExceeded, fmt.Sprintf("the look took more than %s", lookTimeout)
	}
	if last != nil && last.Reason == problem.Reason {
		problem.Since = last.Since
	}
	return problem
}

// follow selects a tag and writes it. It returns the push that it made, also beside an error.
func (l *looker) follow(ctx context.Context, a lookAt, next *found) (*Push, error) {
	if err := l.choose(ctx, a.policy, &next.state); err != nil {
		return nil, err
	}
	if a.policy.Spec.Write == nil {
		next.state.Marks = 0
		return nil, nil // nothing is pushed
	}
	for try := 1; ; try++ {
		made, err := l.write(ctx, a, next)
		failure, ok := errors.AsType[*resolve.Failure](err)
		if !ok || failure.Reason != reason.PushOutdated || try == pushTries {
			return made, err
		}
	}
}

// choose selects the tag, and looks its digest up.
func (l *looker) choose(ctx context.Context, policy *catalog.ImagePolicy, state *State) error {
	tags, more, err := l.p.Upstream.Tags(ctx, policy.Spec.Repository, imagetag.MaxTags)
	if err != nil {
		return err
	}
	image := l.imageOf(policy.Spec.Repository)
	if more {
		return &problemError{reason.ImageNoneSelected, fmt.Sprintf("%s has more than %d tags, so none is selected; delete old ones", image, imagetag.MaxTags)}
	}
	tag, ok := policy.Spec.Select.Select(tags)
	if !ok {
		return &problemError{reason.ImageNoneSelected, fmt.Sprintf("none of the %s of %s matches the policy's spec.select", amount.Of(len(tags), "tag"), image)}
	}
	digest := ""
	if policy.Spec.PinDigest {
		if digest, err = l.p.Upstream.Digest(ctx, policy.Spec.Repository, tag); err != nil {
			return err
		}
		if !imagetag.IsDigest(digest) {
			return &resolve.Failure{Reason: reason.RepositoryNotReady, Message: fmt.Sprintf("the digest of %s:%s is not known yet", image, tag)}
		}
	}
	if state.Image != image || state.Tag != tag || state.Digest != digest {
		state.Image, state.Tag, state.Digest, state.SelectedAt = image, tag, digest, catalog.Now()
	}
	return nil
}

// imageNames is what the name of an image looks like that is written into messages.
var imageNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$`)

// imageOf returns the name of the image of a repository, for people: its URL without the scheme, or the repository's name.
func (l *looker) imageOf(repository string) string {
	name := objectname.Display(repository)
	found := l.p.Fleet.Repository(repository)
	if found == nil {
		return name
	}
	if _, image, _ := strings.Cut(found.Spec.URL, "://"); imageNames.MatchString(image) {
		return image
	}
	return name
}

// write rewrites the marked lines of the branch's head, and pushes them.
func (l *looker) write(ctx context.Context, a lookAt, next *found) (*Push, error) {
	policy, state := a.policy, &next.state
	source := policy.Spec.WriteSource()
	source.Include = catalog.NewList([]string{"*.yaml", "*.yml"})
	answer, err := l.p.Upstream.Resolve(ctx, source)
	if err != nil {
		return nil, err
	}
	now := settled{answer.Snapshot.Digest.String(), state.Tag, state.Digest}
	if a.settled == now {
		next.settled = now
		return nil, nil // nothing is pushed
	}
	read, err := l.read(ctx, policy, source, answer.Snapshot, imagemark.Values{Tag: state.Tag, Digest: state.Digest})
	if err != nil {
		return nil, err
	}
	state.Marks = read.marks
	if len(read.files) == 0 {
		next.settled = now
		return nil, read.problem(policy)
	}
	proposal := ""
	if policy.Spec.Write.PullRequest {
		// People who close a pull request do not want it, so it is not made again for the same change.
		if proposal = read.identity(policy); proposal == state.Proposed && !a.isAsked {
			next.settled = now
			return nil, read.problem(policy)
		}
	}
	if err := l.p.Store.Hold(ctx, l.term); err != nil {
		return nil, err
	}
	commit := commitOf(policy, state, read, answer.Snapshot.Commit)
	id, url, err := l.p.Upstream.PushCommit(ctx, commit)
	l.p.Metrics.pushed(ctx, policy.Spec.Write.PullRequest, err)
	if err != nil {
		return nil, err
	}
	if id == commit.Base {
		next.settled = now // the branch has it already
		return nil, read.problem(policy)
	}
	state.Commit, state.PullRequestURL, state.Proposed = id, url, proposal
	return &Push{Policy: policy, Reason: fmt.Sprintf("%s; commit %.12s", read.summary(state.Image), id)}, read.problem(policy)
}

// commitOf returns the commit that writes what was selected. Its words are the hub's, tags, digests and the name of the policy: no text of
// a file is among them.
func commitOf(policy *catalog.ImagePolicy, state *State, read *reading, base string) push.Commit {
	title := fmt.Sprintf("Update %s to %s", state.Image, state.Tag)
	body := fmt.Sprintf("Leat's image policy %s selected this tag, and changes %s in %s.", policy.Mark(), amount.Of(len(read.changed), "line"), amount.Of(len(read.files), "file"))
	if state.Digest != "" {
		body += "\nDigest: " + state.Digest
	}
	commit := push.Commit{
		Repository: policy.Spec.Write.Repository, Branch: policy.Spec.Write.Branch, Base: base, Files: read.files,
		Message: title + "\n\n" + body + "\n",
	}
	if policy.Spec.Write.PullRequest {
		commit.PullRequest = &push.PullRequest{Branch: policy.Branch(), Title: cutTitle(title), Body: body}
	}
	return commit
}

// cutTitle bounds a title. All of it is ASCII.
func cutTitle(title string) string { return title[:min(len(title), 250)] }

// bounded returns a message of at most maxMessage bytes.
func bounded(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// summary describes the changed lines: the first one, and how many others. A text of a file is shown only if it is an image, a tag or
// a digest.
func (r *reading) summary(image string) string {
	first := r.changed[0]
	text := fmt.Sprintf("%s: %s → %s", image, shown(first.From), shown(first.To))
	if others := len(r.changed) - 1; others > 0 {
		text += fmt.Sprintf(", and %s", amount.Of(others, "other line"))
	}
	return text
}

// references is what images, tags and digests are made of.
var references = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:/@-]{0,499}$`)

func shown(value string) string {
	value = strings.Trim(value, `"'`)
	if !references.MatchString(value) {
		return "another value"
	}
	return cmp.Or(value, "nothing")
}
