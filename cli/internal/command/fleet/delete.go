// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Delete is `leat delete`.
func Delete(s *session.Session) *cobra.Command {
	var targets []target
	cascade := false
	cmd := &cobra.Command{
		Use:   "delete KIND/NAME... | KIND NAME...",
		Short: "Delete clusters, repositories, services, projects, users, roles, access bindings, identity providers, trust rules, configuration sets, notifiers, global services, rollout policies or tokens",
		Long: `Delete clusters, repositories, services, projects, users, access bindings, identity providers or API tokens from the hub.
A project has to be empty.

When a service is deleted, its agent deletes the service's objects from the cluster, unless spec.sync.prune is false. A
cluster or repository that a service still names is not deleted. Deleting a cluster ends its agent's access and
changes nothing in the cluster itself.

A global service that clusters run is deleted with --cascade alone; its services then go from all of them. A service that is derived
from a global service is not deleted by itself.

A user is deleted with all tokens. The access that a user, token or binding gave ends within 30 s, and open connections end within
about 90 s. A token is named by its id, which leat get tokens shows. With an identity provider, all sessions end that began with
it; leat revoke session ends single ones.`,
		Example: `  leat delete service/shop
  leat delete service/shop@berlin
  leat delete globalservice/web --cascade
  leat delete token/8f14e45fceea167a
  leat delete service/shop repository/shop cluster/old
  leat delete cluster old older`,
		Args: func(_ *cobra.Command, args []string) error {
			args, err := joined(args)
			if err != nil {
				return err
			}
			for _, arg := range args {
				t, err := parseDeletable(s, arg)
				if err != nil {
					return err
				}
				targets = append(targets, t)
			}
			return nil
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			return remove(ctx, s, c, targets, cascade)
		}),
	}
	cmd.Flags().BoolVar(&cascade, "cascade", false, "delete global services with the services that are derived from them, in all clusters")
	return cmd
}

// joined returns the arguments as KIND/NAME, also those of KIND NAME..., which people know from kubectl.
func joined(args []string) ([]string, error) {
	switch {
	case len(args) == 0:
		return nil, errors.New("KIND/NAME is missing")
	case strings.Contains(args[0], "/") || len(args) == 1:
		return args, nil
	}
	targets := make([]string, 0, len(args)-1)
	for _, name := range args[1:] {
		targets = append(targets, args[0]+"/"+name)
	}
	return targets, nil
}

// dropWith deletes an object, and with cascade the objects derived from it.
func dropWith(ctx context.Context, c *client.Client, t target, cascade bool) error {
	if t.kind != kindGlobalService || !cascade {
		return drop(ctx, c, t)
	}
	_, err := c.Delete(ctx, &fleetv1.DeleteRequest{Kind: "GlobalService", Name: t.name, Cascade: true})
	return err
}

// remove stops at the first failure, because later targets may depend on earlier ones.
func remove(ctx context.Context, s *session.Session, c *client.Client, targets []target, cascade bool) error {
	for _, t := range targets {
		if err := dropWith(ctx, c, t, cascade); err != nil {
			return orMissing(err, t)
		}
		if _, err := fmt.Fprintf(s.Out, "%s deleted\n", t); err != nil {
			return err
		}
	}
	return nil
}
