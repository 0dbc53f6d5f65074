// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagesync has image policies followed: it selects tags of images, and writes them into the lines
// of Git repositories that name the policy.
//
// One replica of the hub leads and looks at all policies; what it stores is fenced by its term. A look lists the
// tags of the image, selects one, looks its digest up, reads the files at the head of the branch, rewrites the
// marked lines and pushes one commit. It promises:
//
//   - A look that finds the lines as they should be pushes nothing, so neither a restart nor a second leader writes
//     twice. A push names the commit that was read, and fails if the branch leads elsewhere by then.
//   - Only text that is a tag or a digest by OCI's grammar reaches a file, a message or a pull request.
//   - A policy whose look fails is tried again after a pause, and keeps no other policy waiting: each look has its
//     own time, and some are made at once.
//   - A push is recorded, with the tag before and after, once it was made. A replica that dies in between leaves the
//     commit in Git, whose message names the policy.
//
// It decides nothing about rights: the catalog decides which repositories a policy may name, and gitcache which
// branches the hub may push to.
package imagesync

import (
	"context"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/push"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// State is the outcome of the latest look at a policy. Its JSON is its stored form.
type State struct {
	// Image is the name of the image without tag and digest; empty until a tag is selected.
	Image  string `json:"image,omitempty"`
	Tag    string `json:"tag,omitempty"`
	Digest string `json:"digest,omitempty"`
	// SelectedAt is when Tag and Digest became what they are.
	SelectedAt time.Time `json:"selectedAt,omitzero"`
	LookedAt   time.Time `json:"lookedAt,omitzero"`
	// Commit is the last one that the policy pushed, and PullRequestURL the address of its last pull request.
	Commit         string `json:"commit,omitempty"`
	PullRequestURL string `json:"pullRequestUrl,omitempty"`
	// Proposed identifies the change of the last pull request, so that it is made once.
	Proposed string `json:"proposed,omitempty"`
	// Marks counts the lines that name the policy.
	Marks int `json:"marks,omitempty"`
	// Problem is nil if there is none.
	Problem *catalog.Problem `json:"problem,omitempty"`
	// Asked is the number of the latest request that a look has obeyed.
	Asked int64 `json:"asked,omitempty"`
}

// Push is a commit that a policy has pushed, for its record.
type Push struct {
	Policy *catalog.ImagePolicy
	// Reason describes the push for people.
	Reason string
}

// Store keeps states and requests; sqlstore.ImagePolicies implements it. Its methods may be called concurrently. Errors
// match catalog.ErrUnavailable if the database does not answer, and errors of the methods with a term match
// election.ErrDeposed. Every write in a term counts as a beat.
type Store interface {
	States
	// Orders returns the numbers of people's latest requests, by uid.
	Orders(ctx context.Context) (map[string]int64, error)
	// Hold returns an error unless the term lasts, and records can be written.
	Hold(ctx context.Context, term int64) error
	// Save writes what a look found. A policy that is gone is left out. A push that is not nil is recorded.
	Save(ctx context.Context, term int64, uid string, state State, push *Push) error
}

// States is the port by which people read the outcome of looks, and request them; sqlstore.ImagePolicies implements
// it. Errors match catalog.ErrUnavailable if the database does not answer.
type States interface {
	// States returns the states of policies, by uid. Policies without a look are left out.
	States(ctx context.Context, uids []string) (map[string]State, error)
	// Ask requests a look at the policy now, and returns the Asked of the look's state, or more.
	Ask(ctx context.Context, uid string) (asked int64, err error)
}

// Fleet is this replica's view of the catalog; fleet.ImagePolicies implements it. It is safe for concurrent use.
type Fleet interface {
	// ImagePolicies returns all image policies by name.
	ImagePolicies() []*catalog.ImagePolicy
	// Repository returns a repository by its path, or nil.
	Repository(path string) *catalog.Repository
}

// Registry reads the tags of an OCI repository; gitsource.Source implements it. Errors are *resolve.Failure, or the
// context's. It is safe for concurrent use.
type Registry interface {
	// Tags returns the tags of a repository as they were last polled. more is true if there are more than limit.
	Tags(ctx context.Context, repository string, limit int) (tags []string, more bool, err error)
	// Digest looks up the digest that a tag leads to now, without downloading the image.
	Digest(ctx context.Context, repository, tag string) (string, error)
}

// Pusher pushes commits; gitsource.Source implements it. It is safe for concurrent use.
type Pusher interface {
	// PushCommit pushes a commit, and returns its id, which is the base's if the files have these contents already, and
	// the address of the pull request. Nothing is pushed if Branch leads to another commit than Base: the reason is
	// then PUSH_OUTDATED. To repeat a push with the same base makes the same content, once. Errors are *resolve.Failure,
	// or the context's.
	PushCommit(ctx context.Context, commit push.Commit) (id, pullRequestURL string, err error)
}

// Upstream resolves sources; gitsource.Source implements it.
type Upstream interface {
	resolve.Upstream
	Registry
	Pusher
}

// Bundles opens bundles; bundles.Cache implements it.
type Bundles interface {
	Open(ctx context.Context, bundle plan.Bundle) (*cas.Blob, error)
}
