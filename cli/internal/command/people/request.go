// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/lifetime"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// kindAccessRequest is the kind of requests for access.
const kindAccessRequest = "AccessRequest"

// request holds the flags of `leat access request`.
type request struct {
	session                                 *session.Session
	scope                                   scope
	verbs, apiGroups, resources, namespaces []string
	life                                    lifetime.Span
	isWaiting                               bool
	format                                  show.Format
}

func requestAccess(s *session.Session) *cobra.Command {
	r := request{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "request",
		Short: "Ask for a role for a limited time",
		Long: `Ask for a role in clusters, projects, services or repositories, for five minutes to seven days from the approval on. --reason is
what the people who decide read: everybody who could give you this, except you. Asking gives nothing. The
name of the request is alone on the standard output.

A request stays open for 24 hours. --wait waits until it has ended, and exits with 1 unless it was approved. leat get accessrequests
lists your requests, and the requests that you may decide about.`,
		Example: `  leat access request --role operator --cluster berlin --for 1h --reason "INC-42: web is down"
  leat access request --role viewer --in-project shop --for 2d --reason "OPS-7: read the logs" --wait
  leat access request --role-name on-call --service web@berlin --for 8h --reason "night shift"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Fail(r.run(cmd.Context())) },
	}
	flags := cmd.Flags()
	r.scope.bindPlaces(cmd, "viewer, operator, editor or admin (required, or --role-name)")
	flags.StringSliceVar(&r.verbs, "verb", nil, "only these verbs, such as get,list,watch")
	flags.StringSliceVar(&r.apiGroups, "api-group", nil, `only these API groups; "core" is the one without a name`)
	flags.StringSliceVar(&r.resources, "resource", nil, "only these resources, such as pods,pods/log")
	flags.StringSliceVarP(&r.namespaces, "namespace", "n", nil, "only these namespaces")
	flags.Var(&r.life, "for", "how long you need it, such as 30m, 1h or 2d (required)")
	flags.BoolVar(&r.isWaiting, "wait", false, "wait until the request has ended")
	flags.VarP(&r.format, "output", "o", "how to print the request")
	return cmd
}

func (r *request) spec() (*fleetv1.AccessRequestSpec, error) {
	where, err := r.scope.limit()
	if err != nil {
		return nil, err
	}
	switch {
	case r.scope.role == "" && r.scope.roleName == "":
		return nil, failure.Usage("--role must be viewer, operator, editor or admin")
	case r.life <= 0:
		return nil, failure.Usage("--for is required and must be positive, such as 1h")
	case r.session.Reason() == "":
		return nil, failure.Usage(`--reason is required, such as "INC-42: web is down"`)
	}
	spec := &fleetv1.AccessRequestSpec{
		Role: where.GetRole(), RoleName: where.GetRoleName(), Clusters: where.GetClusters(), Projects: where.GetProjects(),
		Services: where.GetServices(), Repositories: where.GetRepositories(),
		Duration: durationpb.New(time.Duration(r.life)), Reason: r.session.Reason(),
	}
	if len(r.verbs)+len(r.apiGroups)+len(r.resources)+len(r.namespaces) > 0 {
		spec.Rules = []*typev1.AccessRule{{Verbs: r.verbs, ApiGroups: r.apiGroups, Resources: r.resources, Namespaces: r.namespaces}}
	}
	return spec, nil
}

func (r *request) run(ctx context.Context) error {
	spec, err := r.spec()
	if err != nil {
		return err
	}
	c, err := r.session.Client()
	if err != nil {
		return err
	}
	calling, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	res, err := c.Requests.CreateAccessRequest(calling, &fleetv1.CreateAccessRequestRequest{Spec: spec})
	if err != nil {
		return err
	}
	name := res.GetAccessRequest().GetMetadata().GetName()
	if r.format == show.Table {
		_, err = fmt.Fprintln(r.session.Out, name)
	} else {
		err = show.Objects(r.session.Out, r.format, show.Style{}, time.Now(), "", []*fleetv1.Document{fleetdoc.Of(res.GetAccessRequest())})
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(r.session.Err, "accessrequest/%s created. To approve it, another person runs: leat access approve %s\n", name, name); err != nil || !r.isWaiting {
		return err
	}
	return r.await(ctx, c, name)
}

// decisionTime is how long a request stays open, and some minutes for the hub to store that it has
// lapsed.
const decisionTime = 24*time.Hour + 10*time.Minute

// await waits until a request has ended. Its error is a failure unless the request was approved.
func (r *request) await(ctx context.Context, c *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, decisionTime)
	defer cancel()
	var last *fleetv1.AccessRequest
	err := c.Follow(ctx, &fleetv1.WatchRequest{Kind: kindAccessRequest, Name: name}, func(change *fleetv1.WatchResponse) error {
		request := change.GetDocument().GetAccessRequest()
		switch {
		case request == nil:
			return nil
		case change.GetDeleted():
			return failure.New("accessrequest/"+name+" is gone", "")
		}
		if last = request; request.GetStatus().GetState() != fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_OPEN {
			return client.ErrStop
		}
		return nil
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("accessrequest/%s %s", name, show.RequestEnd(last))
	if last.GetStatus().GetState() != fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED {
		return failure.New(text, "")
	}
	// With -o json the standard output holds the request alone.
	_, err = fmt.Fprintln(r.session.Err, text)
	return err
}

func approveAccess(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "approve NAME",
		Short: "Give what another person asked for",
		Long: `Approve an open request for access. The hub makes an ordinary access binding for the person who asked, which ends after the
time that they asked for, counted from now. You need what you would need to create this binding yourself. You cannot
approve a request of your own.

leat delete accessbinding/NAME ends the access earlier.`,
		Example: `  leat get accessrequests
  leat access approve access-k3qzv7m2x4ab`,
		Args: oneName("access request"),
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.Requests.ApproveAccessRequest(ctx, &fleetv1.ApproveAccessRequestRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return ended(s, res.GetAccessRequest())
		}),
	}
}

func denyAccess(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "deny NAME",
		Short: "Refuse what another person asked for",
		Long: `Deny an open request for access. The person who asked sees --reason. You need what you would need to approve the request. You
cannot deny a request of your own: leat access withdraw takes it back.`,
		Example: `  leat access deny access-k3qzv7m2x4ab --reason "the incident is over"`,
		Args:    oneName("access request"),
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.Requests.DenyAccessRequest(ctx, &fleetv1.DenyAccessRequestRequest{Name: args[0], Word: s.Reason()})
			if err != nil {
				return err
			}
			return ended(s, res.GetAccessRequest())
		}),
	}
}

func withdrawAccess(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "withdraw NAME",
		Short:   "Take back a request of your own",
		Long:    `Withdraw an open request for access that you made.`,
		Example: `  leat access withdraw access-k3qzv7m2x4ab`,
		Args:    oneName("access request"),
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.Requests.WithdrawAccessRequest(ctx, &fleetv1.WithdrawAccessRequestRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return ended(s, res.GetAccessRequest())
		}),
	}
}

// ended prints a request that the command has ended.
func ended(s *session.Session, request *fleetv1.AccessRequest) error {
	_, err := fmt.Fprintf(s.Out, "accessrequest/%s %s\n", request.GetMetadata().GetName(), show.RequestEnd(request))
	return err
}
