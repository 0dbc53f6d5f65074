// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// EntryMessage returns the message of a plan's entry.
func EntryMessage(e *plan.Entry) *distributorv1.PlanService {
	m := &distributorv1.PlanService{
		Name:         e.Name,
		Uid:          e.UID,
		SpecDigest:   e.SpecDigest,
		ConfigDigest: e.ConfigDigest,
		Apply:        applyMessage(e.Apply),
		SyncRequest:  e.SyncRequest,
		Traceparent:  e.Traceparent,
	}
	for _, b := range e.Bundles {
		m.Bundles = append(m.Bundles, &distributorv1.PlanBundle{
			Digest:     b.Digest.String(),
			Commit:     b.Commit,
			Repository: b.Source.Repository,
			Path:       b.Source.Path,
			Subpath:    b.Subpath,
		})
	}
	return m
}

func applyMessage(a plan.Apply) *distributorv1.ApplySpec {
	return &distributorv1.ApplySpec{
		Namespace:       a.Namespace,
		CreateNamespace: a.CreateNamespace,
		Prune:           a.Prune,
		HealthTimeout:   durationpb.New(a.HealthTimeout),
		Paused:          a.Paused,
		ForceConflicts:  a.ForceConflicts,
		Renderer:        RendererMessage(a.Renderer),

		PruneConfirmation: a.PruneConfirmation,
		Policy:            policywire.PolicyMessage(a.Policy),
		DryRun:            a.DryRun,
	}
}

// RendererOf returns the renderer of a message. An unknown value passes by its number, for
// validation to refuse.
func RendererOf(r distributorv1.Renderer) catalog.Renderer {
	switch r {
	case distributorv1.Renderer_RENDERER_UNSPECIFIED:
		return catalog.RenderAuto
	case distributorv1.Renderer_RENDERER_PLAIN:
		return catalog.RenderPlain
	case distributorv1.Renderer_RENDERER_KUSTOMIZE:
		return catalog.RenderKustomize
	}
	return catalog.Renderer(strconv.Itoa(int(r)))
}

// RendererMessage returns the message of a renderer.
func RendererMessage(r catalog.Renderer) distributorv1.Renderer {
	return distributorv1.Renderer(distributorv1.Renderer_value["RENDERER_"+strings.ToUpper(string(r))])
}
