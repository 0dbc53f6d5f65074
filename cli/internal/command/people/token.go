// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/lifetime"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

func createToken(s *session.Session) *cobra.Command {
	label, life := "", lifetime.Span(0)
	var limit scope
	cmd := &cobra.Command{
		Use:   "token USER",
		Short: "Create an API token for a user and print it",
		Long: `Create an API token for a user: for yourself, or for somebody else with the permission "create tokens". Only the token is printed on
the standard output, and only once: the hub keeps nothing but a hash of it. Its user passes it to leat login.

The token may do what its user may do, at the time of each call. --role and --role-name limit it to a role; --in-project, --cluster,
--service and the other flags of that kind limit it to a part of the fleet. A limit counts in the hub, in calls to agents and in
clusters. What is made with a token never gives more than that token. leat get tokens lists tokens, leat delete token/ID ends one.`,
		Example: `  leat create token ada --label laptop
  leat create token ada --label "shop pipeline" --role editor --in-project shop --expires 720h
  leat create token ada --label dashboard --role viewer --cluster-label stage=prod
  leat create token ci --label "nightly job" --role-name syncer > token.txt`,
		Args: oneName("user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if life < 0 {
				return failure.Usage("--expires must be positive, such as 90d")
			}
			request := &fleetv1.CreateTokenRequest{User: args[0], Label: label}
			var err error
			if request.Limit, err = limit.limit(); err != nil {
				return err
			}
			if life > 0 {
				request.ExpireTime = timestamppb.New(time.Now().Add(time.Duration(life)))
			}
			return s.Fail(s.Call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				made, err := c.CreateToken(ctx, request)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(s.Err, "token/%s created for %s. It is not shown again%s:\n", made.GetToken().GetId(), args[0], traits(made.GetToken())); err != nil {
					return err
				}
				_, err = fmt.Fprintln(s.Out, made.GetSecret())
				return err
			}))
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "what it is for (required)")
	cmd.Flags().Var(&life, "expires", "how long it is valid, such as 12h or 30d; 366d at most (default: 90 days)")
	limit.bind(cmd, "limits the token to viewer, operator, editor or admin (default: what its user may do)",
		"limits the token to nothing but its role, which is also what it does without any other scope")
	return cmd
}

// traits describes the limit and the end of a new token.
func traits(token *fleetv1.Token) string {
	text := ""
	if limit := show.Limit(token.GetLimit()); limit != "" {
		text += ", gives no more than " + limit
	}
	if token.GetExpireTime() != nil {
		text += ", and ends on " + token.GetExpireTime().AsTime().UTC().Format(time.DateOnly)
	}
	return text
}
