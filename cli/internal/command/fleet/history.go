// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
)

// History is `leat history`.
func History(s *session.Session) *cobra.Command {
	h := history{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "history service NAME",
		Short: "Show what a service was to run lately, and what came of it",
		Long: `Show what a service was to run lately, and what came of it: the last 20 revisions, the latest first.

A revision is one content: bundles, spec and configuration. Going back to earlier content is another revision; a
refresh, or a sync of what is there already, is not. What happens to a revision's objects after it was healthy once is
told by leat get. A service that was deleted and created anew begins without history.`,
		Example: `  leat history service shop
  leat history service/shop -o json | jq '.items[] | select(.outcome == "failed") | .problem.message'`,
		Args:              h.args,
		ValidArgsFunction: completeServices(s),
		RunE:              func(cmd *cobra.Command, _ []string) error { return s.Fail(h.run(cmd.Context())) },
	}
	cmd.Flags().VarP(&h.format, "output", "o", "how to print it")
	return cmd
}

type history struct {
	session *session.Session
	format  show.Format
	name    string
}

// args reads service NAME, service/NAME or NAME.
func (h *history) args(_ *cobra.Command, args []string) (err error) {
	switch len(args) {
	case 0:
		return errors.New("service NAME is missing")
	case 1:
		h.name, err = parseService(args[0])
	case 2:
		h.name, err = parseService(args[0] + "/" + args[1])
	default:
		return fmt.Errorf("want only service NAME, got %d arguments", len(args))
	}
	return err
}

func (h *history) run(ctx context.Context) error {
	c, err := h.session.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	revisions, err := c.Revisions(ctx, h.name)
	if isNotFound(err) {
		return missing(target{"Service", h.name})
	}
	if err != nil {
		return err
	}
	if len(revisions) == 0 && h.format == show.Table {
		_, err := fmt.Fprintf(h.session.Err, "service/%s has no history yet: its agent has not reported on anything to run.\n", h.name)
		return err
	}
	return show.Revisions(h.session.Out, h.format, h.session.Style(h.session.Out), time.Now(), revisions)
}
