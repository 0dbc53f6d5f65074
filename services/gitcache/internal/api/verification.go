// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// nameCommit finds the commit that its id, or the beginning of one, names, and makes sure that it
// may be delivered.
func (s *Service) nameCommit(ctx context.Context, r *mirroring.Repository, id string) (string, error) {
	whole := pack.IsName(id)
	if whole && !r.Verifies() {
		return id, nil // reading it shows whether it is there
	}
	err := s.read(ctx, r, func(reader content.Reader) (err error) {
		if !whole {
			if id, err = reader.Expand(ctx, id); err != nil {
				return err
			}
		}
		return r.CheckCommit(ctx, reader, id)
	})
	return id, err
}

func rejectedError(e *mirror.RejectedError, in rpcerr.Option) error {
	name := e.Ref
	if name == "" {
		name = e.Selector.String()
	}
	return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_UPSTREAM_SIGNATURE_REJECTED, rejectedMessage(e),
		in, rpcerr.With("ref", name), rpcerr.With("commit", e.Commit))
}

// rejectedMessage says what is not let through, why, and what to do.
func rejectedMessage(e *mirror.RejectedError) string {
	what, advice := "commit", "Sign and push, or add the signer's key to the repository's verification."
	if e.Selector.IsOfArtifacts() {
		what, advice = "digest", "Sign it, or add the signer's key to the repository's verification."
	}
	switch {
	case e.Ref == "":
		return fmt.Sprintf("The repository's verification does not let %s %s through, which %s.", what, e.Commit, e.Why)
	case e.Excluded:
		return fmt.Sprintf("%s leads to commit %s, which %s; select a tag, or change the mode of the repository's verification.",
			e.Ref, e.Commit, e.Why)
	default:
		return fmt.Sprintf("%s leads to %s %s, which %s, and nothing that it led to before was let through. %s",
			e.Ref, what, e.Commit, e.Why, advice)
	}
}
