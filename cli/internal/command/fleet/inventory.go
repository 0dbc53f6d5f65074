// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// Inventory is `leat inventory`.
func Inventory(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "inventory service/NAME",
		Short: "List the objects of a service with their health",
		Long: `List all objects that a service has in its cluster, with their health. The cluster's agent is asked, so it has to be
connected; leat get tells what it reported last, whether it is or not. The role viewer in the cluster suffices.`,
		Example: `  leat inventory service/shop
  leat inventory service/shop -o json | jq '.items[] | select(.health != "healthy") | .ref'`,
		Args:              oneService,
		ValidArgsFunction: completeServices(s),
		RunE:              onService(s, func(ctx context.Context, name string) error { return printInventory(ctx, s, name, format) }),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	return cmd
}

func printInventory(ctx context.Context, s *session.Session, name string, format show.Format) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	agent, err := agentOf(ctx, s, name)
	if err != nil {
		return err
	}
	var all []*typev1.ObjectStatus
	page := &typev1.Page{}
	for {
		response, err := agent.GetInventory(ctx, &agentv1.GetInventoryRequest{Service: name, Page: page})
		if err != nil {
			return err
		}
		all = append(all, response.GetObjects()...)
		if page.Token = response.GetNextPageToken(); page.GetToken() == "" {
			return show.Inventory(s.Out, format, s.Style(s.Out), all)
		}
	}
}

// agentOf connects to the agent of the service's cluster.
func agentOf(ctx context.Context, s *session.Session, service string) (agentv1connect.AgentServiceClient, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	response, err := c.GetService(ctx, &fleetv1.GetServiceRequest{Name: service})
	if isNotFound(err) {
		return nil, missing(target{"Service", service})
	}
	if err != nil {
		return nil, err
	}
	return s.Agent(ctx, response.GetService().GetSpec().GetCluster())
}
