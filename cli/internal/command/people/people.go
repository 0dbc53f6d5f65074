// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package people holds the commands about access of people to clusters.
package people

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

// Create is `leat create`.
func Create(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create users, access bindings and tokens",
		Long: `Create users, access bindings and API tokens. Long-lived objects are better written as documents for
leat apply (kind: User, kind: AccessBinding), which support everything that these commands do, and more.`,
		Example: `  leat create user ada --group dev
  leat create token ada --label laptop --expires 720h
  leat create token ada --label "shop pipeline" --role editor --in-project shop
  leat create accessbinding dev-staging --for-group dev --role operator --cluster-label stage=staging`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(createUser(s), createToken(s), createBinding(s))
	return cmd
}

func createUser(s *session.Session) *cobra.Command {
	var groups []string
	description := ""
	cmd := &cobra.Command{
		Use:   "user NAME",
		Short: "Create a user",
		Long: `Create a user. A user may do nothing until a binding allows it, except for members of the group leat:admins, who may do
everything. leat create token makes the token with which a user signs in.`,
		Example: `  leat create user ada --group dev --group oncall`,
		Args:    oneName("user"),
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			_, err := fleetcalls.Create(ctx, c, &fleetv1.User{
				Metadata: &typev1.Metadata{Name: args[0]}, Spec: &fleetv1.UserSpec{Description: description, Groups: groups},
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "user/%s created\n", args[0])
			return err
		}),
	}
	cmd.Flags().StringArrayVar(&groups, "group", nil, "a group that the user is in; may be given more than once")
	cmd.Flags().StringVar(&description, "description", "", "a sentence for people")
	return cmd
}

func createBinding(s *session.Session) *cobra.Command {
	var b binding
	cmd := &cobra.Command{
		Use:   "accessbinding NAME",
		Short: "Give users and groups a role in a scope",
		Long: `Give users and groups a role: viewer, operator, editor, admin, or a role of your own (--role-name, see leat get roles). The scope
is projects with all that is in them, clusters with their services, single services, single repositories, or the whole hub. --verb, --resource, --api-group and
--namespace narrow it to requests that match all of them; the hub's own resources have the API group leat.dev. Bindings add up.
Nobody may give what they do not hold themselves.`,
		Example: `  leat create accessbinding ada-berlin --for-user ada --role admin --cluster berlin
  leat create accessbinding dev --for-group dev --role viewer --all-clusters
  leat create accessbinding shop --for-group shop --role operator --cluster-label stage=prod --namespace shop --expires 8h
  leat create accessbinding shop-owners --for-group shop --role editor --service shop --repository shop-deploy
  leat create accessbinding team-shop --for-group shop --role editor --in-project shop
  leat create accessbinding auditors --for-group audit --role viewer --hub`,
		Args: oneName("binding"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := b.spec()
			if err != nil {
				return err
			}
			return s.Fail(s.Call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				_, err := fleetcalls.Create(ctx, c, &fleetv1.AccessBinding{
					Metadata: &typev1.Metadata{Name: args[0]}, Spec: spec,
				})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.Out, "accessbinding/%s created\n", args[0])
				return err
			}))
		},
	}
	b.bind(cmd)
	return cmd
}
