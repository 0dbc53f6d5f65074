// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

// globalPrune lists the deletions that wait for an agreement of a global service.
type globalPrune struct {
	global *fleetv1.GlobalService
	// held are the clusters that keep the service, and waiting the services whose agents keep objects.
	held    []string
	waiting []*fleetv1.Service
}

// confirmGlobal agrees to what the clusters of a global service hold back. Each service has its own digest,
// so what was not shown is not agreed to.
func (p *pruning) confirmGlobal(ctx context.Context, c *client.Client, name string) error {
	reading, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	g, err := readPrune(reading, c, name)
	if err != nil {
		return err
	}
	reference := "globalservice/" + name
	if len(g.held)+len(g.waiting) == 0 {
		return p.printGlobal(g, "the guards of %s keep nothing that waits for an agreement\n", reference)
	}
	if err := p.ask(g.question(), func() error { return p.listGlobal(g, reference) }); err != nil {
		return err
	}
	// The services come first: the others are still there if one of them fails.
	for i, service := range g.waiting {
		if g.waiting[i], err = agree(ctx, c, service, service.GetStatus().GetReport().GetGuardedSpecDigest()); err != nil {
			return fmt.Errorf("service/%s: %w", document.ServiceReference(service), err)
		}
		if err := p.say("the prune of service/%s is agreed to\n", document.ServiceReference(service)); err != nil {
			return err
		}
	}
	if len(g.held) > 0 {
		if g.global, err = agreeGlobal(ctx, c, g.global); err != nil {
			return err
		}
		if err := p.say("the removal of %s from %d of its clusters is agreed to\n", reference, len(g.held)); err != nil {
			return err
		}
	}
	return p.printGlobal(g, "")
}

// readPrune reads what waits. Services that were agreed to already do not.
func readPrune(ctx context.Context, c *client.Client, name string) (*globalPrune, error) {
	response, err := fleetcalls.Get[*fleetv1.GlobalService](ctx, c, name)
	if err != nil {
		return nil, orMissing(err, target{"GlobalService", name})
	}
	members, err := c.Members(ctx, name)
	if err != nil {
		return nil, err
	}
	g := &globalPrune{global: response}
	for _, member := range members {
		service := member.GetService()
		digest := service.GetStatus().GetReport().GetGuardedSpecDigest()
		switch {
		case member.GetHeld():
			g.held = append(g.held, member.GetCluster())
		case digest != "" && digest != service.GetSpec().GetSync().GetPruneConfirmation():
			g.waiting = append(g.waiting, service)
		}
	}
	if g.global.GetStatus().GetHeldDigest() == "" {
		g.held = nil
	}
	return g, nil
}

func (g *globalPrune) question() string {
	switch {
	case len(g.waiting) == 0:
		return "Remove the service from these clusters?"
	case len(g.held) == 0:
		return "Delete these objects?"
	}
	return "Delete these objects, and remove the service from these clusters?"
}

func (p *pruning) listGlobal(g *globalPrune, reference string) error {
	for _, service := range g.waiting {
		if err := p.list(service); err != nil {
			return err
		}
	}
	if len(g.held) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(p.session.Err, "%s: %d of %d clusters would lose the service\n", reference, len(g.held), g.global.GetStatus().GetClusters()); err != nil {
		return err
	}
	for _, cluster := range g.held {
		if _, err := fmt.Fprintf(p.session.Err, "  %s\n", cluster); err != nil {
			return err
		}
	}
	return nil
}

// agreeGlobal stores the agreement, unless the global service has changed since it was read, and so perhaps
// its clusters.
func agreeGlobal(ctx context.Context, c *client.Client, global *fleetv1.GlobalService) (*fleetv1.GlobalService, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	global = proto.CloneOf(global)
	if global.GetSpec().GetRemoval() == nil {
		global.Spec.Removal = &fleetv1.RemovalPolicy{}
	}
	global.Spec.Removal.Confirmation = global.GetStatus().GetHeldDigest()
	response, err := fleetcalls.Update(ctx, c, global)
	return response, err
}

// say prints one line for people.
func (p *pruning) say(format string, args ...any) error {
	if p.format != show.Table {
		return nil
	}
	_, err := fmt.Fprintf(p.session.Out, format, args...)
	return err
}

// printGlobal prints a line for people, if there is one, or else the objects that were read or changed.
func (p *pruning) printGlobal(g *globalPrune, format string, args ...any) error {
	if p.format == show.Table {
		return p.say(format, args...)
	}
	documents := []*fleetv1.Document{fleetdoc.Of(g.global)}
	for _, service := range g.waiting {
		documents = append(documents, fleetdoc.Of(service))
	}
	return show.Objects(p.session.Out, p.format, show.Style{}, time.Now(), "", documents)
}
