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
leat get. A service that was deleted and created again begins without history.`,
		Example: `  leat history service shop
  leat history service/shop -o json | jq '.items[] | select(.outcome == "failed") | .problem.message'`,
		Args:              h.args,
		ValidArgsFunction: completeServices(s),
		RunE:              s.Calling(h.run),
	}
	cmd.Flags().VarP(&h.format, "output", "o", "how to print it")
	return cmd
}

type history struct {
	session *session.Session
	format  show.Format
	name    string
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
