// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// Inventory is `leat inventory`.
func Inventory(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := onService(s, &cobra.Command{
		Use:   "inventory service/NAME",
		Short: "List the objects of a service with their health",
		Long: `List all objects that a service has in its cluster, with their health. The cluster's agent is asked, so it has to be
connected; leat get shows its last report, whether it is or not. The role viewer in the cluster suffices.`,
		Example: `  leat inventory service/shop
  leat inventory service/shop -o json | jq '.items[] | select(.health != "healthy") | .ref'`,
	}, func(ctx context.Context, c *client.Client, name string) error {
		return printInventory(ctx, s, c, name, format)
	})
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	return cmd
}

func printInventory(ctx context.Context, s *session.Session, c *client.Client, name string, format show.Format) error {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	agent, planned, err := agentOf(ctx, s, c, name)
	if err != nil {
		return err
	}
	all, err := client.Pages(func(page *typev1.Page) (*agentv1.GetInventoryResponse, error) {
		return agent.GetInventory(ctx, &agentv1.GetInventoryRequest{Service: planned, Page: page})
	}, (*agentv1.GetInventoryResponse).GetObjects)
	if err != nil {
		return err
	}
	return show.Inventory(s.Out, format, s.Style(s.Out), all)
}

// agentOf connects to the agent of the service's cluster.
func agentOf(
	ctx context.Context, s *session.Session, c *client.Client, service string,
) (agent agentv1connect.AgentServiceClient, name string, err error) {
	found, err := getService(ctx, c, service)
	if err != nil {
		return nil, "", err
	}
	return s.AgentOf(ctx, found)
}
