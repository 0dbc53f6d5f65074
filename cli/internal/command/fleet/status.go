// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
)

// statusInterval is how often --watch asks.
const statusInterval = 5 * time.Second

// Status is `leat status`.
func Status(s *session.Session) *cobra.Command {
	f := fleetStatus{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the problems of the fleet, the worst first",
		Long: `Show what is wrong with clusters, repositories, services and what they follow from, such as rollouts, fleet sources and
global services: since when, where, why, and what to do.

Problems with one cause are one: the same reason, and messages that differ in names and numbers at most, at the same
commit. The severities are failed, degraded, warning (it works, and somebody should look at it) and waiting (it continues
automatically).

It looks at all projects, unless --project names one.

Exit codes: 0 nothing failed, is degraded or waits for a person; 3 something does; 1 the hub could not be asked; 2 wrong command line.`,
		Example: `  leat status
  leat status --project shop
  leat status --cluster berlin
  leat status --watch
  leat status -o json | jq '.problems[].reason'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("project") {
				f.request.Project = s.Project()
			}
			f.request.Cluster = s.Reference("Cluster", f.cluster)
			return s.Fail(f.run(cmd.Context()))
		},
	}
	cmd.Flags().VarP(&f.format, "output", "o", "how to print it")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "print it again whenever it changes, until interrupted")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "only this cluster and its services")
	// The error is that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("cluster", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeNames(cmd, s, "Cluster", ""), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

type fleetStatus struct {
	session *session.Session
	format  show.Format
	watch   bool
	cluster string
	request fleetv1.GetFleetStatusRequest
}

func (f *fleetStatus) run(ctx context.Context) error {
	c, err := f.session.Client()
	if err != nil {
		return err
	}
	if f.watch {
		return f.follow(ctx, c)
	}
	status, err := f.ask(ctx, c)
	if err != nil {
		return err
	}
	if err := f.print(status); err != nil {
		return err
	}
	if status.GetSeverity() >= fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED {
		return failure.Silent(failure.ExitUnhealthy)
	}
	return nil
}

func (f *fleetStatus) ask(ctx context.Context, c *client.Client) (*fleetv1.GetFleetStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	return c.Queries.GetFleetStatus(ctx, &f.request)
}

func (f *fleetStatus) print(status *fleetv1.GetFleetStatusResponse) error {
	return show.Status(f.session.Out, f.format, f.session.Style(f.session.Out), time.Now(), status)
}

// follow prints the status whenever it changes. It ends without an error only if the user interrupts it.
func (f *fleetStatus) follow(ctx context.Context, c *client.Client) error {
	var last *fleetv1.GetFleetStatusResponse
	for {
		status, err := f.ask(ctx, c)
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if last == nil || !proto.Equal(last, status) {
			if f.format == show.Table && last != nil {
				if _, err := fmt.Fprintf(f.session.Out, "\n%s\n", time.Now().Format("2006-01-02 15:04:05")); err != nil {
					return err
				}
			}
			if err := f.print(status); err != nil {
				return err
			}
			last = status
		}
		if err := backoff.Wait(ctx, statusInterval); err != nil {
			return nil //nolint:nilerr // interrupted
		}
	}
}
