// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package people holds the commands about access of people to clusters.
package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/document"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// Create is `leat create`.
func Create(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create users, access bindings and tokens",
		Long: `Create users, access bindings and API tokens. Long-lived objects are better written as documents for
leat apply (kind: User, kind: AccessBinding), which support everything that these commands do, and more.`,
		Example: `  leat create user ada --group dev
  leat create token ada --label laptop --expires 2160h
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
			_, err := c.CreateUser(ctx, &fleetv1.CreateUserRequest{User: &fleetv1.User{
				Metadata: &typev1.Metadata{Name: args[0]}, Spec: &fleetv1.UserSpec{Description: description, Groups: groups},
			}})
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

func createToken(s *session.Session) *cobra.Command {
	label, life := "", time.Duration(0)
	cmd := &cobra.Command{
		Use:   "token USER",
		Short: "Create an API token for a user and print it",
		Long: `Create an API token for a user. Only the token is printed on the standard output, and only once: the hub keeps nothing but a
hash of it. Its user passes it to leat login.`,
		Example: `  leat create token ada --label laptop
  leat create token ci --label "nightly job" --expires 2160h > token.txt`,
		Args: oneName("user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if life < 0 {
				return failure.Usage("--expires must be positive, such as 2160h for 90 days")
			}
			return s.Fail(s.Call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				request := &fleetv1.CreateTokenRequest{User: args[0], Label: label}
				if life > 0 {
					request.ExpireTime = timestamppb.New(time.Now().Add(life))
				}
				made, err := c.CreateToken(ctx, request)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(s.Err, "token/%s created for %s. It is not shown again:\n", made.GetToken().GetId(), args[0]); err != nil {
					return err
				}
				_, err = fmt.Fprintln(s.Out, made.GetSecret())
				return err
			}))
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "what it is for (required)")
	cmd.Flags().DurationVar(&life, "expires", 0, "how long it is valid, such as 2160h for 90 days (default: for ever)")
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
				_, err := c.CreateAccessBinding(ctx, &fleetv1.CreateAccessBindingRequest{AccessBinding: &fleetv1.AccessBinding{
					Metadata: &typev1.Metadata{Name: args[0]}, Spec: spec,
				}})
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

// binding holds the flags of an access binding.
type binding struct {
	users, groups, clusters                 []string
	services, repositories, projects        []string
	verbs, apiGroups, resources, namespaces []string
	labels                                  map[string]string
	role, roleName, description             string
	all, hub, allProjects                   bool
	life                                    time.Duration
}

func (b *binding) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&b.users, "for-user", nil, "a user; may be given more than once")
	flags.StringArrayVar(&b.groups, "for-group", nil, "a group; may be given more than once")
	flags.StringVar(&b.role, "role", "", "viewer, operator, editor or admin (required, or --role-name)")
	flags.StringVar(&b.roleName, "role-name", "", "a role of your own (kind: Role)")
	flags.StringArrayVar(&b.clusters, "cluster", nil, "a cluster; may be given more than once")
	flags.StringToStringVar(&b.labels, "cluster-label", nil, "KEY=VALUE; clusters with all of these labels")
	flags.BoolVar(&b.all, "all-clusters", false, "all clusters, including future ones")
	flags.StringArrayVar(&b.services, "service", nil, "a single service; may be given more than once")
	flags.StringArrayVar(&b.repositories, "repository", nil, "a repository; may be given more than once")
	flags.StringArrayVar(&b.projects, "in-project", nil, "a project with its clusters, services and repositories; may be given more than once")
	flags.BoolVar(&b.allProjects, "all-projects", false, "all projects, including future ones")
	flags.BoolVar(&b.hub, "hub", false, "everything: all clusters, and repositories, users and bindings")
	flags.StringSliceVar(&b.verbs, "verb", nil, "only these verbs, such as get,list,watch")
	flags.StringSliceVar(&b.apiGroups, "api-group", nil, `only these API groups; "core" is the one without a name`)
	flags.StringSliceVar(&b.resources, "resource", nil, "only these resources, such as pods,pods/log")
	flags.StringSliceVarP(&b.namespaces, "namespace", "n", nil, "only these namespaces")
	flags.DurationVar(&b.life, "expires", 0, "how long it is valid, such as 8h (default: for ever)")
	flags.StringVar(&b.description, "description", "", "a sentence for people")
}

func (b *binding) spec() (*fleetv1.AccessBindingSpec, error) {
	role, ok := map[string]typev1.AccessRole{
		"viewer": typev1.AccessRole_ACCESS_ROLE_VIEWER, "operator": typev1.AccessRole_ACCESS_ROLE_OPERATOR,
		"editor": typev1.AccessRole_ACCESS_ROLE_EDITOR, "admin": typev1.AccessRole_ACCESS_ROLE_ADMIN,
	}[b.role]
	switch {
	case b.role != "" && b.roleName != "":
		return nil, failure.Usage("--role excludes --role-name")
	case !ok && b.roleName == "":
		return nil, failure.Usage("--role must be viewer, operator, editor or admin%s", document.Suggest(b.role, []string{"viewer", "operator", "editor", "admin"}))
	}
	spec := &fleetv1.AccessBindingSpec{
		Description: b.description, Users: b.users, Groups: b.groups, Role: role, RoleName: b.roleName,
		Hub: b.hub, Services: b.services, Repositories: b.repositories,
	}
	if b.all || len(b.clusters)+len(b.labels) > 0 {
		spec.Clusters = &fleetv1.ClusterSelection{All: b.all, Names: b.clusters}
	}
	if b.allProjects || len(b.projects) > 0 {
		spec.Projects = &fleetv1.ProjectSelection{All: b.allProjects, Names: b.projects}
	}
	if len(b.labels) > 0 {
		spec.Clusters.Labels = &fleetv1.LabelSelector{MatchLabels: b.labels}
	}
	if len(b.verbs)+len(b.apiGroups)+len(b.resources)+len(b.namespaces) > 0 {
		spec.Rules = []*typev1.AccessRule{{Verbs: b.verbs, ApiGroups: b.apiGroups, Resources: b.resources, Namespaces: b.namespaces}}
	}
	if b.life < 0 {
		return nil, failure.Usage("--expires must be positive, such as 8h")
	}
	if b.life > 0 {
		spec.ExpireTime = timestamppb.New(time.Now().Add(b.life))
	}
	return spec, nil
}

func oneName(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("want the name of one " + what)
		}
		return nil
	}
}
