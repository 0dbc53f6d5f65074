// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/spine/imagetag"
)

// imagePolicyOf refuses unknown fields, because they may narrow what is selected and written.
func imagePolicyOf(m *fleetv1.ImagePolicy) (*catalog.ImagePolicy, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if len(spec.ProtoReflect().GetUnknown())+len(spec.GetSelect().ProtoReflect().GetUnknown())+len(spec.GetWrite().ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	project := objectname.Project(metadata.Name)
	repository, err := objectname.Parse("spec.repository", spec.GetRepository(), project)
	if err != nil {
		return nil, err
	}
	p := &catalog.ImagePolicy{Metadata: metadata, Spec: catalog.ImagePolicySpec{
		Description: spec.GetDescription(), Suspended: spec.GetSuspended(), Repository: repository, PinDigest: spec.GetPinDigest(),
		Select: imagetag.Selection{
			Range: spec.GetSelect().GetRange(), Pattern: spec.GetSelect().GetPattern(), Order: imagetag.Order(enumname.Of(spec.GetSelect().GetOrder())),
		},
	}}
	if write := spec.GetWrite(); write != nil {
		p.Spec.Write = &catalog.ImageWrite{Branch: write.GetBranch(), Path: write.GetPath(), PullRequest: write.GetPullRequest()}
		p.Spec.Write.Repository, err = objectname.Parse("spec.write.repository", write.GetRepository(), project)
	}
	return p, err
}

// imagePolicyMessage is without what the policy did.
func imagePolicyMessage(p *catalog.ImagePolicy) *fleetv1.ImagePolicy {
	s, project := p.Spec, objectname.Project(p.Name)
	m := &fleetv1.ImagePolicy{
		Metadata: MetadataMessage(&p.Metadata),
		Spec: &fleetv1.ImagePolicySpec{
			Description: s.Description, Suspended: s.Suspended, Repository: objectname.Format(s.Repository, project), PinDigest: s.PinDigest,
			Select: &fleetv1.ImageSelection{Range: s.Select.Range, Pattern: s.Select.Pattern, Order: enumname.Value[fleetv1.ImageOrder](string(s.Select.Order))},
		},
		Status: &fleetv1.ImagePolicyStatus{},
	}
	if s.Write != nil {
		m.Spec.Write = &fleetv1.ImageWrite{
			Repository: objectname.Format(s.Write.Repository, project), Branch: s.Write.Branch, Path: s.Write.Path, PullRequest: s.Write.PullRequest,
		}
	}
	return m
}

// ImagePolicyStatusMessage returns the message of what an image policy last did.
func ImagePolicyStatusMessage(s imagesync.State) *fleetv1.ImagePolicyStatus {
	return &fleetv1.ImagePolicyStatus{
		Image: s.Image, Tag: s.Tag, Digest: s.Digest, LookedAt: catalogwire.Timestamp(s.LookedAt), SelectedAt: catalogwire.Timestamp(s.SelectedAt),
		Commit: s.Commit, PullRequestUrl: s.PullRequestURL, Marks: int32(s.Marks), Problem: catalogwire.ProblemMessage(s.Problem), ObservedRequest: s.Asked,
	}
}
