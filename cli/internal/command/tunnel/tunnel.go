// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel holds the commands about the tunnel itself: connected agents and recorded
// sessions.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

const callTimeout = 30 * time.Second

// Connections is `leat connections`.
func Connections(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "connections [CLUSTER]",
		Short: "List agents' connections to the tunnel",
		Long:  `List the connections that agents hold to the hub's tunnel, over all its replicas: of one cluster, or of all. Only administrators may list them.`,
		Example: `  leat connections
  leat connections berlin -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("want the name of one cluster, or none for all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.Fail(printConnections(cmd.Context(), s, strings.Join(args, ""), format))
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	return cmd
}

func printConnections(ctx context.Context, s *session.Session, cluster string, format show.Format) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	hub, err := s.Tunnel(ctx)
	if err != nil {
		return err
	}
	var all []*tunnelv1.Session
	page := &typev1.Page{}
	for {
		response, err := hub.ListSessions(ctx, &tunnelv1.ListSessionsRequest{Cluster: cluster, Page: page})
		if err != nil {
			return err
		}
		all = append(all, response.GetSessions()...)
		if page.Token = response.GetNextPageToken(); page.GetToken() == "" {
			if err := warn(s, response.GetUnanswered()); err != nil {
				return err
			}
			return show.Connections(s.Out, format, s.Style(s.Out), all, time.Now())
		}
	}
}

// warn warns that the answers of some replicas are missing.
func warn(s *session.Session, unanswered []string) error {
	if len(unanswered) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(s.Err, "Warning: %d of the tunnel's replicas did not answer; their part is missing.\n", len(unanswered))
	return err
}
