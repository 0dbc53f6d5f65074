// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// refMessage describes what a selector does not find, and suggests what was meant.
func refMessage(e *mirror.RefError) string {
	names := strings.Join(shownNames(e), ", ")
	switch {
	case e.NoBranches:
		return fmt.Sprintf("The repository holds artifacts, and has no %s; select by tag, semver or commit.", e.Selector)
	case e.Ambiguous:
		return fmt.Sprintf("Several digests begin as the %s; give more digits.", e.Selector)
	case e.NoCommit:
		return fmt.Sprintf("The repository's %s leads to no commit, so there is nothing to deliver from.", e.Selector)
	case e.Selector.IsOfArtifacts() && e.Selector.Kind == mirror.SelectHead && names == "":
		return fmt.Sprintf("The repository has no %s; it may not have been published yet.", e.Selector)
	case e.Selector.IsOfArtifacts() && e.Selector.Kind == mirror.SelectHead:
		return fmt.Sprintf("The repository has no %s; name one, such as %s.", e.Selector, names)
	case e.Selector.Kind == mirror.SelectHead && names == "":
		return "The repository has no branches; nothing has been pushed yet, or all were deleted."
	case e.Selector.Kind == mirror.SelectHead:
		return fmt.Sprintf("The repository's HEAD leads nowhere; name a branch, such as %s.", names)
	case e.Selector.IsOfArtifacts() && names == "":
		return fmt.Sprintf(
			"The repository has no %s, and nothing with a similar name; it may not have been published yet.",
			e.Selector,
		)
	case e.Selector.Kind == mirror.SelectSemver && names == "":
		return fmt.Sprintf("The repository has no %s, and no tag that is a version at all.", e.Selector)
	case e.Selector.Kind == mirror.SelectSemver:
		return fmt.Sprintf("The repository has no %s; its highest versions are %s.", e.Selector, names)
	case names == "":
		return fmt.Sprintf("The repository has no %s; it may not have been pushed yet.", e.Selector)
	default:
		return fmt.Sprintf("The repository has no %s; did you mean %s?", e.Selector, names)
	}
}

// shownNames returns what may have been meant: full names of refs, but versions of the chart, or
// charts with a version, in an artifact repository.
func shownNames(e *mirror.RefError) []string {
	if !e.Selector.IsOfArtifacts() {
		return e.Close
	}
	var names []string
	for _, name := range e.Close {
		if version, own := strings.CutPrefix(name, e.Selector.Within); own {
			names = append(names, version)
		} else {
			names = append(names, strings.ReplaceAll(strings.TrimPrefix(name, mirror.TagPrefix), "/", " "))
		}
	}
	return names
}

func rejectedError(e *mirror.RejectedError, in rpcerr.Option) error {
	name := e.Ref
	if name == "" {
		name = e.Selector.String()
	}
	return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_UPSTREAM_SIGNATURE_REJECTED,
		rejectedMessage(e),
		in, rpcerr.With("ref", name), rpcerr.With("commit", e.Commit))
}

// rejectedMessage names the rejected object, the reason, and the remedy.
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
