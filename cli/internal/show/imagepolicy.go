// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// imagePolicyKind shows image policies.
var imagePolicyKind = kind{
	columns: []string{"NAME", "IMAGE", "WRITES TO", "COMMIT", "LOOKED", "STATUS"},
	cells:   imagePolicyCells,
}

// imagePolicyCells shows what an image policy selects, where it writes that, and what the latest look found. In place of the
// commit stands the pull request, if the policy opens some.
func imagePolicyCells(object *fleetv1.Document, now time.Time) []cell {
	p := object.GetImagePolicy()
	spec, status, write := p.GetSpec(), p.GetStatus(), p.GetSpec().GetWrite()
	image := status.GetImage()
	if status.GetTag() != "" {
		image += ":" + status.GetTag()
	}
	target := ""
	if write != nil {
		target = strings.TrimSuffix(write.GetRepository()+"@"+write.GetBranch()+" "+write.GetPath(), " ")
	}
	pushed := status.GetCommit()
	pushed = pushed[:min(len(pushed), 12)]
	if write.GetPullRequest() {
		pushed = cmp.Or(status.GetPullRequestUrl(), pushed)
	}
	message := oneLine(status.GetProblem().GetMessage())
	if spec.GetSuspended() {
		message = strings.TrimSuffix("suspended; "+message, "; ")
	}
	return []cell{
		plain(p.GetMetadata().GetName()), plain(cmp.Or(image, spec.GetRepository())), plain(target), plain(pushed), ago(status.GetLookedAt(), now), plain(message),
	}
}
