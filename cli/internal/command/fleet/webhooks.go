// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
)

const repositoryPrefix = "repository/"

// Webhooks is `leat webhooks`.
func Webhooks(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "webhooks repository/NAME",
		Short: "Show where a repository takes webhooks, and which arrived",
		Long: `Show the address of a repository's webhook, and the webhooks that arrived, the newest first.

They are the last 10 by which the repository was fetched, and the last 10 others, of 30 days. One that was refused is among
them if its address names the repository. docs/guides/webhooks.md has what to choose at each Git host, and how to set the
secret.`,
		Example: "  leat webhooks repository/shop",
		Args:    oneOf("repository/NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeNames(cmd, s, "Repository", repositoryPrefix), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			return showWebhooks(ctx, c, s, strings.TrimPrefix(args[0], repositoryPrefix), format)
		}),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print them")
	return cmd
}

func showWebhooks(ctx context.Context, c *client.Client, s *session.Session, name string, format show.Format) error {
	name = s.Reference("Repository", name)
	res, err := c.ListWebhookDeliveries(ctx, &fleetv1.ListWebhookDeliveriesRequest{Name: name})
	if err != nil {
		return err
	}
	if format != show.Table {
		return show.Webhooks(s.Out, format, s.Style(s.Out), time.Now(), res.GetDeliveries())
	}
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return err
	}
	base := info.GetWebhookUrl()
	if base == "" {
		base = "…/webhooks"
	}
	path, err := objectname.Parse("repository", name, objectname.Default)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.Out, "Address: %s/PROVIDER/%s\n\n", base, path); err != nil {
		return err
	}
	if len(res.GetDeliveries()) == 0 {
		_, err := fmt.Fprintln(s.Out, "No webhook has arrived in the last 30 days.")
		return err
	}
	return show.Webhooks(s.Out, format, s.Style(s.Out), time.Now(), res.GetDeliveries())
}
