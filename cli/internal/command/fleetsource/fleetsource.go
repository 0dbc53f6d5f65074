// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleetsource holds the commands about a fleet that is defined in Git.
package fleetsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/amount"
)

// kind is the kind of fleet sources.
const kind = "FleetSource"

// New is `leat fleetsource`.
func New(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleetsource",
		Short: "Show the results of fleet sources, confirm removals, and suspend sources",
		Long: `Show the results of fleet sources, confirm removals, and suspend sources. Fleet sources are documents: leat apply, leat get fleetsources and
leat delete fleetsource/NAME work as for others.`,
		Example: `  leat fleetsource status fleet
  leat fleetsource sync fleet
  leat fleetsource confirm fleet`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(status(s), sync(s), confirm(s), suspend(s), resume(s))
	return cmd
}

func status(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the latest result of each document",
		Long: `Show the latest result of each document of a fleet source, problems first: file and line, the action, the object, and
the problem. Objects whose documents are gone have no file.`,
		Example: `  leat fleetsource status fleet
  leat fleetsource status shop/fleet -o json`,
		Args: oneName,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name := s.Reference(kind, named(args[0]))
			documents, err := c.FleetSourceDocuments(ctx, name)
			if err != nil {
				return err
			}
			if format == show.Table {
				object, err := c.One(ctx, kind, name)
				if err != nil {
					return err
				}
				if err := show.Objects(s.Out, format, s.Style(s.Out), time.Now(), kind, []*fleetv1.Document{object}); err != nil {
					return err
				}
				if _, err := fmt.Fprintln(s.Out); err != nil {
					return err
				}
			}
			return show.FleetSourceDocuments(s.Out, format, s.Style(s.Out), documents)
		}),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print them")
	return cmd
}

func sync(s *session.Session) *cobra.Command {
	isWaited, timeout := false, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "sync NAME",
		Short: "Fetch and apply a fleet source now",
		Long: `Fetch the repository of a fleet source, and apply its documents within seconds instead of at the next poll. With --wait it
returns when the fetched commit was processed; the exit code is 1 if there is a problem then.`,
		Example: `  leat fleetsource sync fleet
  git push && leat fleetsource sync fleet --wait`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			wait := timeout
			if !isWaited {
				wait = 0
			}
			return s.Fail(Sync(cmd.Context(), s, named(args[0]), wait))
		},
	}
	cmd.Flags().BoolVar(&isWaited, "wait", false, "wait until the source has looked at it")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// Sync makes a fleet source read its repository now. It waits at most so long for the result, and
// not at all if wait is zero.
func Sync(ctx context.Context, s *session.Session, name string, wait time.Duration) error {
	name = s.Reference(kind, name)
	var requested int64
	err := s.Call(ctx, func(ctx context.Context, c *client.Client) error {
		res, err := c.SyncFleetSource(ctx, &fleetv1.SyncFleetSourceRequest{Name: name})
		requested = res.GetRequest()
		return err
	})
	if err == nil && wait > 0 && requested == 0 {
		err = failure.New("fleetsource/"+name+" is being synced, but this hub is too old to say when that is done", "Upgrade the hub.")
	}
	if err != nil {
		return err
	}
	if wait == 0 {
		_, err = fmt.Fprintf(s.Out, "fleetsource/%s is being synced\n", name)
		return err
	}
	var last *fleetv1.FleetSource
	err = s.Until(ctx, wait, func(ctx context.Context, c *client.Client) (bool, error) {
		object, err := c.One(ctx, kind, name)
		if err != nil {
			return false, err
		}
		last = object.GetFleetSource()
		if last.GetSpec().GetSuspended() && !last.GetStatus().GetSuspensionEnded() {
			return false, failure.New("fleetsource/"+name+" is suspended, so it looks at nothing", "leat fleetsource resume "+name+" ends that.")
		}
		return last.GetStatus().GetObservedRequest() >= requested, nil
	})
	switch problem := last.GetStatus().GetProblem(); {
	case errors.Is(err, context.DeadlineExceeded):
		return failure.New(fmt.Sprintf("fleetsource/%s has not looked at its repository within %s", name, wait),
			"leat fleetsource status "+name+" shows its latest look.")
	case err != nil:
		return err
	case problem != nil:
		return failure.New(fmt.Sprintf("fleetsource/%s: %s", name, problem.GetMessage()), "leat fleetsource status "+name+" shows each document.")
	}
	status := last.GetStatus()
	_, err = fmt.Fprintf(s.Out, "fleetsource/%s is as commit %s says: %d documents\n", name, status.GetCommit(), status.GetDocuments())
	return err
}

func confirm(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "confirm NAME [DIGEST]",
		Short: "Confirm the removals that a fleet source holds back",
		Long: `Confirm the removals that a fleet source holds back, because a commit removes more than its guard allows. The confirmation is for exactly
the objects that leat fleetsource status shows as held. With a DIGEST it is refused if others are held by now.`,
		Example: `  leat fleetsource confirm fleet
  leat fleetsource confirm fleet 5f2b0c8d9a7e6f10`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return errors.New("want the name of one fleet source, and at most a digest")
			}
			return nil
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name := s.Reference(kind, named(args[0]))
			object, err := c.One(ctx, kind, name)
			if err != nil {
				return err
			}
			held := object.GetFleetSource().GetStatus()
			digest := held.GetHeldDigest()
			switch {
			case digest == "":
				return failure.New("fleetsource/"+name+" holds no removals that can be confirmed", "leat fleetsource status "+name+" shows what it did.")
			case len(args) == 2 && args[1] != digest:
				return failure.New("other removals are held now: "+digest, "Look at them with leat fleetsource status "+name+", and confirm again.")
			}
			if _, err := c.ConfirmFleetSource(ctx, &fleetv1.ConfirmFleetSourceRequest{Name: name, Digest: digest}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%s of fleetsource/%s %s confirmed\n", amount.Of(held.GetHeld(), "removal"), name, amount.Are(held.GetHeld()))
			return err
		}),
	}
}

func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the name of one fleet source")
	}
	return nil
}

// named takes fleetsource/NAME for NAME.
func named(word string) string { return strings.TrimPrefix(word, "fleetsource/") }
