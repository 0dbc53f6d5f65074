// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Access is `leat access`.
func Access(s *session.Session) *cobra.Command {
	a := review{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "access [CLUSTER [VERB RESOURCE]]",
		Short: "Show who may do what in a cluster or in the hub, and why",
		Long: `Show what you may do in a cluster through the hub, and which bindings allow it; or whether you may do one thing, such as
"delete pods", "get pods/log" or "get /metrics". Exits with 1 if not. The rights of the groups are decided by the cluster's own
RBAC, which is not queried. The hub's own resources, and calls to the agent, have the API group leat.dev: "sync services.leat.dev".
Without a cluster, it shows what you may do in the hub as a whole.

Administrators ask for others: --as for one user, --everybody for all bindings that cover the cluster. leat access who-can shows who can
do one thing, or could at some time.

leat access request asks for a role for a limited time, and leat access approve gives it. A cluster that is called like a command is named
with its project, as in default/request.`,
		Example: `  leat access berlin
  leat access berlin delete deployments.apps -n shop
  leat access berlin sync services.leat.dev -n shop
  leat access berlin --as ada create pods/exec -n shop
  leat access berlin --everybody -o json`,
		Args: a.args,
		RunE: s.Calling(a.run),
	}
	flags := cmd.Flags()
	flags.StringVar(&a.request.User, "as", "", "the user in question (default: you)")
	flags.StringArrayVar(&a.request.Groups, "as-group", nil, "a group of a user who is not a user of the hub itself; may be given more than once")
	flags.StringVarP(&a.namespace, "namespace", "n", "", "the request's namespace (default: all, or none)")
	flags.BoolVar(&a.request.Everybody, "everybody", false, "all bindings that cover the cluster")
	flags.VarP(&a.format, "output", "o", "how to print it")
	cmd.AddCommand(whoCan(s), requestAccess(s), approveAccess(s), denyAccess(s), withdrawAccess(s))
	return cmd
}

type review struct {
	session   *session.Session
	format    show.Format
	namespace string
	request   fleetv1.ReviewAccessRequest
}

func (a *review) args(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0, 1:
		if a.namespace != "" {
			return errors.New("--namespace belongs to VERB RESOURCE, which are missing")
		}
	case 3:
		a.request.Attributes = attributes(args[1], args[2], a.namespace)
	default:
		return errors.New("want nothing, CLUSTER, or CLUSTER VERB RESOURCE")
	}
	if a.request.GetEverybody() && (a.request.GetUser() != "" || len(args) > 1) {
		return errors.New("--everybody excludes --as and VERB RESOURCE")
	}
	if len(args) > 0 {
		a.request.Cluster = a.session.Reference("Cluster", args[0])
	}
	return nil
}

func (a *review) run(ctx context.Context, c *client.Client, _ []string) error {
	res, err := c.ReviewAccess(ctx, &a.request)
	if err != nil {
		return err
	}
	if err := show.Access(a.session.Out, a.format, a.session.Style(a.session.Out), time.Now(), res); err != nil {
		return err
	}
	if !res.GetAllowed() {
		return failure.New(fmt.Sprintf("%s is not allowed", a.question()), "An administrator makes a binding with leat create accessbinding.")
	}
	return nil
}

func (a *review) question() string {
	attributes := a.request.GetAttributes()
	if attributes == nil {
		return "access to " + cmp.Or(a.request.GetCluster(), "the hub")
	}
	return attributes.GetVerb() + " " + attributes.GetResource() + attributes.GetNonResourcePath()
}
