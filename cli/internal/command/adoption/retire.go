// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/helmrelease"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
)

// These labels are on every object that belongs to a service. Objects of the project default have no
// projectLabel.
const (
	serviceLabel = "leat.dev/service"
	projectLabel = "leat.dev/project"
)

// healthy returns the service, if it is applied completely and healthy.
func (h *importer) healthy(ctx context.Context, name string) (service *fleetv1.Service, err error) {
	err = h.session.Call(ctx, func(ctx context.Context, c *client.Client) error {
		response, err := fleetcalls.Get[*fleetv1.Service](ctx, c, name)
		service = response
		return err
	})
	if err != nil {
		return nil, err
	}
	if spec := service.GetSpec(); spec.GetDryRun() || spec.GetPaused() && !service.GetStatus().GetPauseEnded() {
		return nil, failure.New(fmt.Sprintf("service/%s is paused or a dry run, so it has not taken over the release", name), "Nothing was deleted.")
	}
	if !delivery.Healthy.Reached(service) {
		return nil, failure.New(fmt.Sprintf("service/%s is not healthy: %s", name, delivery.Describe(service)),
			"Nothing was deleted. Wait for it with leat wait service/"+name+" --for=healthy.")
	}
	return service, nil
}

// requireOwner fails unless every object of the release that exists belongs to the service.
func (h *importer) requireOwner(ctx context.Context, store *helmrelease.Store, release helmrelease.Release, service *fleetv1.Service) error {
	objects, err := helmrelease.Applied(ctx, render.Split{Limits: render.LimitsWithin(renderworker.Container())}, release)
	if err != nil {
		return err
	}
	all, err := store.Labels(ctx, objects, release.Namespace)
	if err != nil {
		return err
	}
	var others []string
	owner := service.GetMetadata()
	for i, labels := range all {
		if labels != nil && (labels[serviceLabel] != owner.GetName() || labels[projectLabel] != owner.GetProject()) {
			others = append(others, line(helmrelease.Describe(objects[i])))
		}
	}
	if len(others) > 0 {
		return failure.New(fmt.Sprintf("objects of release %s do not belong to service/%s: %s", release.Name, document.ServiceReference(service), strings.Join(others, ", ")),
			"Nothing was deleted. Delete them, or let the service have them: without the release, nothing would know of them.")
	}
	return nil
}

// line returns a text of others in one line, without control characters: a terminal would obey them.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
