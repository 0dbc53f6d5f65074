// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Revoke is `leat revoke`.
func Revoke(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "End sessions of people",
		Long:  `End sessions of people, with all access tokens that were obtained with them.`,
		Example: `  leat revoke session 4DMXQRS5QJ4W7PVGDJ2LBEKHRT
  leat revoke session --all-of corp.ada`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(revokeSession(s))
	return cmd
}

func revokeSession(s *session.Session) *cobra.Command {
	person := ""
	cmd := &cobra.Command{
		Use:   "session ID | --all-of PERSON",
		Short: "End one session, or all of a person",
		Long: `End one session, or all sessions of a person. Access ends within a second for calls to the hub, within 30 s for new requests to
clusters, and within about 90 s for running ones. The person can sign in again, unless the identity provider refuses. Users
who are not administrators may end their own sessions.`,
		Example: `  leat revoke session 4DMXQRS5QJ4W7PVGDJ2LBEKHRT
  leat revoke session --all-of corp.ada`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (person != "") || len(args) > 1 {
				return errors.New("want the id of one session, which leat get sessions shows, or --all-of PERSON")
			}
			return nil
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			request := &fleetv1.RevokeSessionRequest{Person: person}
			if len(args) == 1 {
				request.Id = args[0]
			}
			res, err := c.SignIns.RevokeSession(ctx, request)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%d ended\n", res.GetRevoked())
			return err
		}),
	}
	cmd.Flags().StringVar(&person, "all-of", "", "end all sessions of this person")
	return cmd
}
