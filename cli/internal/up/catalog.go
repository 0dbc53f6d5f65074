// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/cli/internal/client"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/document"
)

// fillCatalog creates the objects that the options describe.
func (u *up) fillCatalog(ctx context.Context) (err error) {
	if u.client, err = client.New(client.Params{Server: u.hubURL(), Token: u.dir.AdminToken}); err != nil {
		return err
	}
	if u.plan, err = newPlan(u.Options, u.repositoryURL()); err != nil {
		return err
	}
	existing, err := u.listAll(ctx)
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	apply, remove := u.plan.changes(existing)
	for _, object := range remove {
		if err := u.remove(ctx, object); err != nil {
			return err
		}
	}
	if len(apply) == 0 {
		return nil
	}
	if _, err := u.client.Apply(ctx, &fleetv1.ApplyRequest{Documents: apply}); err != nil {
		return fmt.Errorf("fill the catalog: %w", err)
	}
	return nil
}

func (u *up) listAll(ctx context.Context) ([]*fleetv1.Document, error) {
	var all []*fleetv1.Document
	for _, kind := range []string{"Cluster", "Repository", "Service"} {
		objects, err := u.client.All(ctx, kind, "")
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// remove deletes an object that an earlier start has made and this one does not need, unless other
// objects use it.
func (u *up) remove(ctx context.Context, object *fleetv1.Document) error {
	kind, name := document.Identify(object)
	err := u.client.Remove(ctx, kind, name)
	if connect.CodeOf(err) == connect.CodeFailedPrecondition {
		u.tell("hub", kind+" "+name+" of an earlier start stays, because others use it")
		return nil
	}
	if err == nil {
		u.tell("hub", kind+" "+name+" of an earlier start is removed")
		return nil
	}
	return fmt.Errorf("remove %s %s: %w", kind, name, err)
}
