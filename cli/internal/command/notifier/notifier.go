// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package notifier holds the commands about messages of notifiers.
package notifier

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
)

// kind is the kind of notifiers.
const kind = "Notifier"

// New is `leat notifier`.
func New(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notifier",
		Short: "Test notifiers, and resend failed messages",
		Long: `Test notifiers, and resend failed messages. Notifiers are documents: leat apply, leat get notifiers and leat delete
notifier/NAME work as for others.`,
		Example: `  leat notifier test chat
  leat notifier dead-letters chat
  leat notifier resend chat`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(test(s), deadLetters(s), resend(s))
	return cmd
}

func test(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Send an example message, and print the receiver's answer",
		Long: `Send an example message, once, and print the receiver's answer. The exit code is 1 if the receiver did not take it. A notifier of
commit statuses has no test, because it would change a commit.`,
		Example: "  leat notifier test chat",
		Args:    oneName,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.TestNotifier(ctx, &fleetv1.TestNotifierRequest{Name: s.Reference(kind, named(args[0]))})
			if err != nil {
				return err
			}
			if !res.GetAccepted() {
				return failure.New("the message was not taken: "+res.GetAnswer(), "Correct the notifier's sink, apply it, and test again.")
			}
			_, err = fmt.Fprintf(s.Out, "message %s was taken: %s\n", res.GetId(), res.GetAnswer())
			return err
		}),
	}
}

func deadLetters(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "dead-letters NAME",
		Short: "Show the messages that a notifier has given up",
		Long: `Show the messages that a notifier has given up: those that its receiver refused, and those that could not be sent for a day. The
oldest come first.`,
		Example: "  leat notifier dead-letters chat",
		Args:    oneName,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			letters, err := c.DeadLetters(ctx, s.Reference(kind, named(args[0])))
			if err != nil {
				return err
			}
			return show.DeadLetters(s.Out, format, s.Style(s.Out), time.Now(), letters)
		}),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print them")
	return cmd
}

func resend(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "resend NAME [ID ...]",
		Short: "Send dead letters again, all or some",
		Long:  `Send the dead letters of a notifier again, all or those with the given ids. A message keeps its id, by which receivers drop duplicates.`,
		Example: `  leat notifier resend chat
  leat notifier resend chat 4DMXQRS5QJ4W7PVGDJ2LBEKHRT`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want the name of a notifier")
			}
			return nil
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.ResendNotifier(ctx, &fleetv1.ResendNotifierRequest{Name: s.Reference(kind, named(args[0])), Ids: args[1:]})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%d will be sent again\n", res.GetCount())
			return err
		}),
	}
}

func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the name of one notifier")
	}
	return nil
}

// named takes notifier/NAME for NAME.
func named(word string) string { return strings.TrimPrefix(word, "notifier/") }
