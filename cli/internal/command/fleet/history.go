// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// History is `leat history`.
func History(s *session.Session) *cobra.Command {
	h := history{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "history service NAME",
		Short: "Show a service's latest revisions and their outcomes",
		Long: `Show the last 20 revisions of a service and their outcomes, the latest first.

A revision is one combination of bundles, spec and configuration. A return to earlier content is a new revision; a
refresh, or a sync without a change, is not. For the state of a revision's objects after it was first healthy see
leat get. A service that was deleted and created again begins without history.

With --commits it shows who changed the service instead: the commits that brought what its sources have now, the newest
first. With --commit it shows those that brought that commit, which must be one of a revision. They are the commits that
touch the folder of the source since its commit before, at most 20.`,
		Example: `  leat history service shop
  leat history service/shop --commits
  leat history service/shop -o json | jq '.items[] | select(.outcome == "failed") | .problem.message'`,
		Args:              h.args,
		ValidArgsFunction: completeServices(s),
		RunE:              s.Calling(h.run),
	}
	flags := cmd.Flags()
	flags.VarP(&h.format, "output", "o", "how to print it")
	flags.BoolVar(&h.commits, "commits", false, "show the commits that brought what the sources have now, with their authors")
	flags.StringVar(&h.commit, "commit", "", "show the commits that brought this one, a whole commit id")
	cmd.MarkFlagsMutuallyExclusive("commits", "commit")
	return cmd
}

type history struct {
	session *session.Session
	format  show.Format
	name    string
	commits bool
	commit  string
}

// args parses service NAME, service/NAME or NAME.
func (h *history) args(_ *cobra.Command, args []string) (err error) {
	switch len(args) {
	case 0:
		return errors.New("service NAME is missing")
	case 1:
		h.name, err = parseService(h.session, args[0])
	case 2:
		h.name, err = parseService(h.session, args[0]+"/"+args[1])
	default:
		return fmt.Errorf("want only service NAME, got %d arguments", len(args))
	}
	return err
}

func (h *history) run(ctx context.Context, c *client.Client, _ []string) error {
	if h.commits || h.commit != "" {
		return h.whoChanged(ctx, c)
	}
	revisions, err := c.Revisions(ctx, h.name)
	if err != nil {
		return orMissing(err, serviceTarget(h.name))
	}
	if len(revisions) == 0 && h.format == show.Table {
		_, err := fmt.Fprintf(h.session.Err, "service/%s has no history yet: its agent has not reported on anything to run.\n", h.name)
		return err
	}
	return show.Revisions(h.session.Out, h.format, h.session.Style(h.session.Out), time.Now(), revisions)
}

func (h *history) whoChanged(ctx context.Context, c *client.Client) error {
	res, err := c.ListServiceCommits(ctx, &fleetv1.ListServiceCommitsRequest{Service: h.name, Commit: h.commit})
	if err != nil {
		return orMissing(err, serviceTarget(h.name))
	}
	if res.GetMore() {
		fmt.Fprintln(h.session.Err, "There are more commits; the Git host has them.")
	}
	return show.ServiceCommits(h.session.Out, h.format, h.session.Style(h.session.Out), time.Now(), res.GetCommits())
}
