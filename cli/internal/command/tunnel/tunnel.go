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

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

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
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	cluster, err := s.ClusterPath(cluster)
	if err != nil {
		return err
	}
	hub, err := s.Tunnel(ctx)
	if err != nil {
		return err
	}
	all, err := gather(s, func(page *typev1.Page) (*tunnelv1.ListSessionsResponse, error) {
		return hub.ListSessions(ctx, &tunnelv1.ListSessionsRequest{Cluster: cluster, Page: page})
	}, (*tunnelv1.ListSessionsResponse).GetSessions)
	if err != nil {
		return err
	}
	return show.Connections(s.Out, format, s.Style(s.Out), all, time.Now())
}

// answer is a page of what all replicas of the tunnel know.
type answer interface {
	GetNextPageToken() string
	GetUnanswered() []string
}

// gather returns the items of all pages, and warns if the answers of some replicas are missing.
func gather[R answer, T any](s *session.Session, list func(*typev1.Page) (R, error), items func(R) []T) ([]T, error) {
	var last R
	all, err := client.Pages(func(page *typev1.Page) (response R, err error) {
		last, err = list(page)
		return last, err
	}, items)
	if err != nil || len(last.GetUnanswered()) == 0 {
		return all, err
	}
	_, err = fmt.Fprintf(s.Err, "Warning: %d of the tunnel's replicas did not answer; their part is missing.\n", len(last.GetUnanswered()))
	return all, err
}
