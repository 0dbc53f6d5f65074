// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/lifetime"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// scope holds the flags that select a role and its scope, of a binding and of a token's limit.
type scope struct {
	role, roleName         string
	clusters, services     []string
	repositories, projects []string
	labels                 map[string]string
	isHub, allClusters     bool
	allProjects            bool
}

// bind binds the flags. The usage of --role shows whether it is required.
func (c *scope) bind(cmd *cobra.Command, roleUsage, hubUsage string) {
	c.bindPlaces(cmd, roleUsage)
	cmd.Flags().BoolVar(&c.isHub, "hub", false, hubUsage)
}

// bindPlaces is bind without the flag for the whole hub.
func (c *scope) bindPlaces(cmd *cobra.Command, roleUsage string) {
	flags := cmd.Flags()
	flags.StringVar(&c.role, "role", "", roleUsage)
	flags.StringVar(&c.roleName, "role-name", "", "a role of your own (kind: Role)")
	flags.StringArrayVar(&c.clusters, "cluster", nil, "a cluster; may be given more than once")
	flags.StringToStringVar(&c.labels, "cluster-label", nil, "KEY=VALUE; clusters with all of these labels")
	flags.BoolVar(&c.allClusters, "all-clusters", false, "all clusters, including future ones")
	flags.StringArrayVar(&c.services, "service", nil, "a single service; may be given more than once")
	flags.StringArrayVar(&c.repositories, "repository", nil, "a repository; may be given more than once")
	flags.StringArrayVar(&c.projects, "in-project", nil, "a project with its clusters, services and repositories; may be given more than once")
	flags.BoolVar(&c.allProjects, "all-projects", false, "all projects, including future ones")
}

// limit returns the limit that the flags set; nil if none is given.
func (c *scope) limit() (*fleetv1.TokenLimit, error) {
	role := typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED
	if c.role != "" {
		known := map[string]typev1.AccessRole{
			"viewer": typev1.AccessRole_ACCESS_ROLE_VIEWER, "operator": typev1.AccessRole_ACCESS_ROLE_OPERATOR,
			"editor": typev1.AccessRole_ACCESS_ROLE_EDITOR, "admin": typev1.AccessRole_ACCESS_ROLE_ADMIN,
		}
		var ok bool
		if role, ok = known[c.role]; !ok {
			return nil, failure.Usage("--role must be viewer, operator, editor or admin%s", document.Suggest(c.role, []string{"viewer", "operator", "editor", "admin"}))
		}
	}
	if c.role != "" && c.roleName != "" {
		return nil, failure.Usage("--role excludes --role-name")
	}
	l := &fleetv1.TokenLimit{Role: role, RoleName: c.roleName, Hub: c.isHub, Services: c.services, Repositories: c.repositories}
	if c.allClusters || len(c.clusters)+len(c.labels) > 0 {
		l.Clusters = &fleetv1.ClusterSelection{All: c.allClusters, Names: c.clusters}
	}
	if len(c.labels) > 0 {
		l.Clusters.Labels = &fleetv1.LabelSelector{MatchLabels: c.labels}
	}
	if c.allProjects || len(c.projects) > 0 {
		l.Projects = &fleetv1.ProjectSelection{All: c.allProjects, Names: c.projects}
	}
	isEmpty := role == typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED && l.GetRoleName() == "" && !l.GetHub() && l.GetClusters() == nil &&
		l.GetProjects() == nil && len(l.GetServices())+len(l.GetRepositories()) == 0
	if isEmpty {
		return nil, nil
	}
	return l, nil
}

// binding holds the flags of an access binding.
type binding struct {
	scope
	users, groups                           []string
	verbs, apiGroups, resources, namespaces []string
	description                             string
	life                                    lifetime.Span
}

func (b *binding) bind(cmd *cobra.Command) {
	b.scope.bind(cmd, "viewer, operator, editor or admin (required, or --role-name)", "everything: all clusters, and repositories, users and bindings")
	flags := cmd.Flags()
	flags.StringArrayVar(&b.users, "for-user", nil, "a user; may be given more than once")
	flags.StringArrayVar(&b.groups, "for-group", nil, "a group; may be given more than once")
	flags.StringSliceVar(&b.verbs, "verb", nil, "only these verbs, such as get,list,watch")
	flags.StringSliceVar(&b.apiGroups, "api-group", nil, `only these API groups; "core" is the one without a name`)
	flags.StringSliceVar(&b.resources, "resource", nil, "only these resources, such as pods,pods/log")
	flags.StringSliceVarP(&b.namespaces, "namespace", "n", nil, "only these namespaces")
	flags.Var(&b.life, "expires", "how long it is valid, such as 8h or 30d (default: for ever)")
	flags.StringVar(&b.description, "description", "", "a sentence for people")
}

func (b *binding) spec() (*fleetv1.AccessBindingSpec, error) {
	if b.role == "" && b.roleName == "" {
		return nil, failure.Usage("--role must be viewer, operator, editor or admin")
	}
	where, err := b.limit()
	if err != nil {
		return nil, err
	}
	spec := &fleetv1.AccessBindingSpec{
		Description: b.description, Users: b.users, Groups: b.groups, Role: where.GetRole(), RoleName: where.GetRoleName(),
		Hub: where.GetHub(), Services: where.GetServices(), Repositories: where.GetRepositories(), Clusters: where.GetClusters(), Projects: where.GetProjects(),
	}
	if len(b.verbs)+len(b.apiGroups)+len(b.resources)+len(b.namespaces) > 0 {
		spec.Rules = []*typev1.AccessRule{{Verbs: b.verbs, ApiGroups: b.apiGroups, Resources: b.resources, Namespaces: b.namespaces}}
	}
	if b.life < 0 {
		return nil, failure.Usage("--expires must be positive, such as 8h")
	}
	if b.life > 0 {
		spec.ExpireTime = timestamppb.New(time.Now().Add(time.Duration(b.life)))
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
