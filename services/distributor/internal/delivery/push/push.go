// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package push describes commits that the hub pushes to upstreams of Git repositories.
package push

// Commit is one commit to push.
type Commit struct {
	Repository string
	// Branch is the one that Base was read from, without refs/heads/.
	Branch string
	// Base is the commit that the files were read from.
	Base string
	// Files are the new contents by their paths from the root of the repository.
	Files   map[string][]byte
	Message string
	// PullRequest is nil for a commit onto Branch itself.
	PullRequest *PullRequest
}

// PullRequest asks the people of a repository to merge a branch.
type PullRequest struct {
	// Branch is the one that the commit is pushed to. It is replaced.
	Branch      string
	Title, Body string
}
