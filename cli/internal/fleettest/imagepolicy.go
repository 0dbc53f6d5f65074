// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// imagePolicies is an ImagePolicyService whose policies have selected a tag.
type imagePolicies struct {
	fleetv1connect.UnimplementedImagePolicyServiceHandler
	hub *Hub
}

// writing is the status of a policy. One that opens pull requests has opened one, and one that writes nothing finds no tag.
func writing(spec *fleetv1.ImagePolicySpec) *fleetv1.ImagePolicyStatus {
	if spec.GetWrite() == nil {
		return &fleetv1.ImagePolicyStatus{ObservedRequest: 1, Problem: &typev1.Problem{Message: "none of the 2 tags of registry.example/shop/web matches the policy's spec.select"}}
	}
	status := &fleetv1.ImagePolicyStatus{
		Image: "registry.example/shop/web", Tag: "1.4.2", Commit: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", Marks: 1, ObservedRequest: 1,
	}
	if spec.GetWrite().GetPullRequest() {
		status.PullRequestUrl = "https://git.example/shop/pulls/7"
	}
	return status
}

// SyncImagePolicy implements ImagePolicyServiceHandler.
func (i imagePolicies) SyncImagePolicy(_ context.Context, request *fleetv1.SyncImagePolicyRequest) (*fleetv1.SyncImagePolicyResponse, error) {
	_, err := i.hub.get("imagepolicy", request.GetName())
	return &fleetv1.SyncImagePolicyResponse{Request: 1}, err
}
