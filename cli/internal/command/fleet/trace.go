// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Trace is `leat trace`.
func Trace(s *session.Session) *cobra.Command {
	t := trace{history: history{session: s, format: show.Table}}
	cmd := &cobra.Command{
		Use:   "trace service NAME",
		Short: "Show how long each step of a service's latest change took",
		Long: `Show the way of a service's latest revision: how long it took to fetch, plan, send, download, render and apply it, and
until everything was healthy.

Fetching and planning are known if a commit brought the revision. Where the hub exports traces, the same way stands in
one trace, with all that happened in between; its ID is printed, or where to look at it if the hub knows
(--distributor-trace-url of the distributor). For earlier revisions see leat history.`,
		Example: `  leat trace service shop
  leat trace service/shop@berlin --revision 7
  leat trace service/shop -o json | jq -r .traceId`,
		Args:              t.args,
		ValidArgsFunction: completeServices(s),
		RunE:              s.Calling(t.run),
	}
	flags := cmd.Flags()
	flags.VarP(&t.format, "output", "o", "how to print it")
	flags.Int64Var(&t.revision, "revision", 0, "number of another revision, from leat history")
	return cmd
}

type trace struct {
	history
	revision int64
}

func (t *trace) run(ctx context.Context, c *client.Client, _ []string) error {
	revision, err := t.find(ctx, c)
	if err != nil {
		return err
	}
	return show.Trace(t.session.Out, t.format, t.session.Style(t.session.Out), t.name, revision)
}

func (t *trace) find(ctx context.Context, c *client.Client) (*fleetv1.Revision, error) {
	revisions, err := c.Revisions(ctx, t.name)
	if err != nil {
		return nil, orMissing(err, serviceTarget(t.name))
	}
	for _, revision := range revisions {
		if t.revision == 0 || revision.GetNumber() == t.revision {
			return revision, nil
		}
	}
	if t.revision == 0 {
		return nil, errors.New("service/" + t.name + " has no revision yet: its agent has not reported on anything to run")
	}
	return nil, fmt.Errorf("service/%s has no revision %d; leat history service/%[1]s lists those that are kept", t.name, t.revision)
}
