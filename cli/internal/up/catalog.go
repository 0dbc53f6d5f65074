// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/cli/internal/client"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// catalog is the content of the hub.
type catalog struct {
	*base

	client *client.Client
}

// fill creates the objects of the plan.
func (c *catalog) fill(ctx context.Context, p plan) error {
	existing, err := c.listAll(ctx)
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	apply, remove := p.changes(existing)
	for _, object := range remove {
		if err := c.remove(ctx, object); err != nil {
			return err
		}
	}
	if len(apply) == 0 {
		return nil
	}
	if _, err := c.client.Apply(ctx, &fleetv1.ApplyRequest{Documents: apply}); err != nil {
		return fmt.Errorf("fill the catalog: %w", err)
	}
	return nil
}

func (c *catalog) listAll(ctx context.Context) ([]*fleetv1.Document, error) {
	var all []*fleetv1.Document
	for _, kind := range []string{"Cluster", "Repository", "Service"} {
		objects, err := c.client.All(ctx, kind, "")
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// remove deletes an object that an earlier start has made and this one does not need, unless other
// objects use it.
func (c *catalog) remove(ctx context.Context, object *fleetv1.Document) error {
	kind, name := document.Identify(object)
	err := c.client.Remove(ctx, kind, name)
	if connect.CodeOf(err) == connect.CodeFailedPrecondition {
		c.tell("hub", kind+" "+name+" of an earlier start stays, because others use it")
		return nil
	}
	if err == nil {
		c.tell("hub", kind+" "+name+" of an earlier start is removed")
		return nil
	}
	return fmt.Errorf("remove %s %s: %w", kind, name, err)
}
