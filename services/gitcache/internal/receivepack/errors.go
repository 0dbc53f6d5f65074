// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receivepack

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// rejectedError is a push that the upstream has refused in its report.
type rejectedError struct {
	old  string // where the branch led before; empty: nowhere
	said string
}

func (e *rejectedError) Error() string { return fmt.Sprintf("upstream refused the push: %q", e.said) }

// Outdated returns the error for a branch, named in full, that leads to another commit than the one
// that a pushed commit was made on.
func Outdated(branch string, cause error) error {
	return &mirror.UpstreamError{
		Reason:  reason.PushOutdated,
		Message: fmt.Sprintf("%s has moved meanwhile. Read it again; nothing was changed.", strings.TrimPrefix(branch, mirror.BranchPrefix)),
		Cause:   cause,
	}
}

// explain returns a failure as it is promised. A credential that could fetch and is refused now is
// one that may not write.
func explain(upstreams func(error, mirror.Definition) error, err error, def mirror.Definition) error {
	if rejected, ok := errors.AsType[*rejectedError](err); ok {
		return &mirror.UpstreamError{
			Reason: reason.PushRefused,
			Message: "The upstream refused the push: let the credential push to the branch there, or push to another branch and open a pull request." +
				uploadpack.Quote(rejected.said, def),
			Cause: err,
		}
	}
	explained := upstreams(err, def)
	e, ok := errors.AsType[*mirror.UpstreamError](explained)
	if !ok {
		return explained
	}
	if e.Reason != reason.UpstreamAuthRejected && e.Reason != reason.RepositoryNotFound {
		return e
	}
	refused := *e
	refused.Reason = reason.PushRefused
	refused.Message = "The credential may not push to the repository; give it the right to write there. " + e.Message
	return &refused
}
