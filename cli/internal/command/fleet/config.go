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
	"github.com/leatdev/leat/internal/kit/amount"
)

// Config is `leat config`.
func Config(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the sources of configuration, and read them again",
		Long: `Show the source of each value of a service's configuration, and make the hub read a back end again.

A service is configured by its own spec.config, by the ConfigSets that it lists, and by those that its project lists. Values may stand there, or be
references to a ConfigBackend. docs/guides/configuration.md has more.`,
		Example: `  leat config explain service/shop
  leat config refresh vault-prod shop/db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(explainConfig(s), refreshConfig(s))
	return cmd
}

func explainConfig(s *session.Session) *cobra.Command {
	key, format := "", show.Table
	cmd := &cobra.Command{
		Use:   "explain service/NAME [KEY]",
		Short: "Show the source of each value of a service's configuration",
		Long: `Show for each key of a service's configuration, or for one, which layer sets it, the reference, the version and the age of the value, which
layers have the key, too, without effect, and what is wrong. It never shows a value.

LAYER is project NAME for a ConfigSet that the project lists, set NAME for one that the service lists, or service. The last one that has a key wins.
A derived service has set NAME for one that its global service lists, global for the template, and override NAME.
REFERENCE is where the value is read, with the values of facts in their place.
SAME AS are other keys of the service that have the same secret.
While a rollout policy holds the service at an earlier configuration, the keys that the service has otherwise are listed on standard error.
STATE is current, stale while an earlier value is in use because the back end does not answer or has no such value any more, or missing.`,
		Example: `  leat config explain service/shop
  leat config explain service/shop DB_PASSWORD -o json`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeServices(s),
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := parseService(s, args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				key = args[1]
			}
			res, err := c.ExplainServiceConfig(ctx, &fleetv1.ExplainServiceConfigRequest{Name: name, Key: key})
			if err != nil {
				return orMissing(err, serviceTarget(name))
			}
			if len(res.GetKeys()) == 0 && format == show.Table {
				_, err := fmt.Fprintf(s.Err, "service/%s has no configuration.\n", name)
				return err
			}
			if policy := res.GetHeldBy(); policy != "" {
				if _, err := fmt.Fprintf(s.Err, "held by rolloutpolicy %s until its rollout admits it: service/%s has an earlier configuration, which differs in %s\n",
					policy, name, strings.Join(res.GetHeldKeys(), ", ")); err != nil {
					return err
				}
			}
			return show.ConfigKeys(s.Out, format, s.Style(s.Out), time.Now(), res.GetKeys())
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "the one key to explain")
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	return cmd
}

func refreshConfig(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "refresh BACKEND [PATH]",
		Short: "Read a back end again now",
		Long: `Have the hub read a path of a configuration back end now, or all paths that services refer to, as after a rotation. Without it, the hub reads
them again after the back end's refresh. The command does not wait for the answers; leat config explain shows them.`,
		Example: `  leat config refresh vault-prod
  leat config refresh vault-prod shop/db`,
		Args: cobra.RangeArgs(1, 2),
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			request := &fleetv1.RefreshConfigBackendRequest{Name: args[0]}
			if len(args) == 2 {
				request.Path = args[1]
			}
			res, err := c.RefreshConfigBackend(ctx, request)
			if err != nil {
				return orMissing(err, target{"ConfigBackend", args[0]})
			}
			_, err = fmt.Fprintf(s.Out, "configbackend/%s reads %s\n", args[0], amount.Of(res.GetEntries(), "path"))
			return err
		}),
	}
}
