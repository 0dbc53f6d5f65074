// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localrender

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/render"
)

// Download returns the zstd bytes of a bundle, which the caller closes.
type Download func(ctx context.Context, digest string) (io.ReadCloser, error)

// Bundle is content that a hub delivers.
type Bundle struct {
	Download Download
	// Folder is the folder of the source's manifests in the bundle; "" is its root.
	Folder string
	// Facts are the facts of the source that templates may read.
	Facts render.SourceFacts
}

// ErrNothingDelivered means that the hub has no content for a service.
var ErrNothingDelivered = errors.New("the hub delivers no content for the service now")

// bare returns the name in a reference, which is all that templates are given.
func bare(reference string) string { return reference[strings.LastIndexByte(reference, '/')+1:] }

// FromPlan returns the service that a hub delivers, with placeholders in place of the secrets that
// the settings do not give. The error is ErrNothingDelivered, or means that the hub is newer than
// this program.
func FromPlan(name string, planned *fleetv1.GetServicePlanResponse, download Download, settings Settings) (Service, error) {
	entry := planned.GetService()
	if len(entry.GetBundles()) == 0 {
		return Service{}, ErrNothingDelivered
	}
	options, err := policywire.Planned(entry.GetApply())
	if err != nil {
		return Service{}, fmt.Errorf("the hub is newer than this leat, which does not understand how the service is rendered; upgrade leat: %w", err)
	}
	cluster, service := bare(planned.GetCluster()), bare(name)
	s := Service{
		Renderer: renderstep.Renderer(options.Renderer), Steps: options.Render, Installed: planned.GetInstalled() || settings.Installed,
		Facts: render.Facts{
			Cluster: render.ClusterFacts{
				Name: cluster, Labels: planned.GetFacts().GetLabels(), Annotations: planned.GetFacts().GetAnnotations(),
				KubernetesVersion: settings.KubernetesVersion, APIVersions: settings.APIVersions,
			},
			Service: render.ServiceFacts{Name: service, Namespace: options.NamespaceOrDefault()},
		},
	}
	if options.Policy.Tests != nil {
		s.Tests = options.Policy.Tests.Path
	}
	for _, b := range entry.GetBundles() {
		s.Sources = append(s.Sources, Source{
			Wire: &typev1.Source{Repository: b.GetRepository(), Path: b.GetPath()}, Mount: b.GetMount(),
			Bundle: &Bundle{Download: download, Folder: b.GetSubpath(), Facts: render.SourceFacts{
				Repository: b.GetRepository(), Path: b.GetPath(), Mount: b.GetMount(),
				Commit: b.GetCommit(), Version: b.GetVersion(), Digest: b.GetDigest(),
			}},
		})
	}
	settings.HasPlaceholders = true
	s.Variables, s.Placeholders, err = configured(planned.GetConfig(), settings)
	return s, err
}

// read returns the files of a bundle, after its digest was verified.
func (b *Bundle) read(ctx context.Context, limits render.Limits) (*render.Files, error) {
	want, err := digest.Parse(b.Facts.Digest)
	if err != nil {
		return nil, fmt.Errorf("read plan of the service: %w", err)
	}
	packed, err := b.Download(ctx, b.Facts.Digest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = packed.Close() }() // only read
	content, err := bundle.Decompress(packed, bundle.DefaultLimits().Bytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read
	sum := sha256.New()
	tar := io.TeeReader(content, sum)
	files, err := render.Read(bundle.NewReader(tar, bundle.Limits{}), limits)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, tar); err != nil {
		return nil, err
	}
	if digest.FromSum([sha256.Size]byte(sum.Sum(nil))) != want {
		return nil, reason.Errorf(reason.DigestMismatch, "the bundle of repository %s is not what its digest says; try again", b.Facts.Repository)
	}
	return files, nil
}
