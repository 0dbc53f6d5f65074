// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout holds the commands about rollouts.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/lifetime"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// kind is the kind of policies.
	kind = "RolloutPolicy"
	// watchEvery is how often a rollout that is watched is asked for.
	watchEvery = 2 * time.Second
)

// New is `leat rollout`.
func New(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show and control rollouts",
		Long: `Show and control rollouts of new content. A rollout is named by its policy. Policies are documents: leat apply, leat get
rolloutpolicies and leat delete rolloutpolicy/NAME work as for others.

A command that changes something takes --reason, which the audit log and the rollout keep.`,
		Example: `  leat rollout status shops
  leat rollout approve shops --reason "looks good in eu-lab"
  leat rollout abort shops`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		status(s), history(s), wait(s), approve(s), replay(s),
		pause(s),
		control(s, "resume", "Continue a paused rollout", "resumed"),
		control(s, "abort", "End a rollout: members keep what they have, and the content is not tried again", "aborted"),
		control(s, "retry", "Continue a rollout that halted, or try content again that one did not bring to all", "tried again"),
		control(s, "skip-wave", "End the wait for the members and the soak of the current wave", "past the wave"),
		control(s, "rollback", "Take all members back to what they had", "going back"),
	)
	return cmd
}

func status(s *session.Session) *cobra.Command {
	format, number, isWatched := show.Table, int64(0), false
	cmd := &cobra.Command{
		Use:   "status POLICY",
		Short: "Show a rollout, and why each member lacks the change",
		Long: `Show a rollout, its waves, and why each member does not have the change yet. With --watch the table is printed again whenever
it changes, until the rollout has ended. A table shows the first 1,000 members; other formats have all.`,
		Example: `  leat rollout status shops
  leat rollout status shops --watch
  leat rollout status shops --number 3 -o json`,
		Args: onePolicy,
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &fleetv1.GetRolloutRequest{Name: s.Reference(kind, named(args[0])), Number: number}
			for last := ""; ; {
				hasEnded := false
				err := s.Call(cmd.Context(), func(ctx context.Context, c *client.Client) (err error) {
					last, hasEnded, err = printOnce(ctx, s, c, format, request, last)
					return err
				})
				if err != nil || !isWatched || hasEnded {
					return s.Fail(err)
				}
				if err := backoff.Wait(cmd.Context(), watchEvery); err != nil {
					return s.Fail(err)
				}
			}
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	cmd.Flags().Int64Var(&number, "number", 0, "number of the rollout; 0 means the latest")
	cmd.Flags().BoolVarP(&isWatched, "watch", "w", false, "then print every change, until the rollout has ended")
	return cmd
}

// printOnce prints a rollout unless it was also printed last, and returns the printed text.
func printOnce(
	ctx context.Context, s *session.Session, c *client.Client, format show.Format, request *fleetv1.GetRolloutRequest, last string,
) (text string, hasEnded bool, err error) {
	res, err := withMembers(ctx, c, request, format)
	if err != nil {
		return last, false, err
	}
	if format == show.Table {
		for _, m := range res.GetMembers() {
			m.Service = s.Here("Service", m.GetService(), request.GetName())
		}
	}
	var printed strings.Builder
	if err := show.Rollout(&printed, format, s.Style(s.Out), time.Now(), res); err != nil {
		return last, false, err
	}
	if printed.String() != last {
		_, err = fmt.Fprint(s.Out, printed.String())
	}
	return printed.String(), res.GetRollout().GetEndedAt() != nil, err
}

const (
	// pageSize is the largest number of members that the hub returns at once, and tableSize how many of them a
	// table shows at least, if there are so many.
	pageSize  = 1000
	tableSize = pageSize
)

// withMembers returns a rollout with its members. A table may have the first ones only; then the
// answer has the token of the next page.
func withMembers(ctx context.Context, c *client.Client, request *fleetv1.GetRolloutRequest, format show.Format) (*fleetv1.GetRolloutResponse, error) {
	next := &fleetv1.GetRolloutRequest{Name: request.GetName(), Number: request.GetNumber(), Page: &typev1.Page{Size: pageSize}}
	var all []*fleetv1.RolloutMember
	for {
		res, err := c.GetRollout(ctx, next)
		if err != nil {
			return nil, err
		}
		all = append(all, res.GetMembers()...)
		if res.GetNextPageToken() == "" || format == show.Table && len(all) >= tableSize {
			res.Members = all
			return res, nil
		}
		next.Number, next.Page.Token = res.GetRollout().GetNumber(), res.GetNextPageToken()
	}
}

func history(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:     "list POLICY",
		Short:   "Show the rollouts of a policy, the latest first",
		Long:    "Show the rollouts of a policy, the latest first. The hub keeps 20 of them.",
		Example: "  leat rollout list shops",
		Args:    onePolicy,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.ListRollouts(ctx, &fleetv1.ListRolloutsRequest{Name: s.Reference(kind, named(args[0]))})
			if err != nil {
				return err
			}
			return show.Rollouts(s.Out, format, s.Style(s.Out), time.Now(), res.GetRollouts())
		}),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print them")
	return cmd
}

func approve(s *session.Session) *cobra.Command {
	wave := ""
	cmd := &cobra.Command{
		Use:   "approve POLICY",
		Short: "Approve the waves after the current one",
		Long: `Approve the waves after the current one. If the wave names groups, you must be in one of them; if it has notByAuthor, you must
not have edited what the rollout brings, and leat rollout status shows who has. With --wave the approval counts for that wave alone, so
that nothing else is approved if the rollout has moved on.`,
		Example: `  leat rollout approve shops --wave canary --reason "looks good in eu-lab"`,
		Args:    onePolicy,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.ApproveRollout(ctx, &fleetv1.ApproveRolloutRequest{Name: s.Reference(kind, named(args[0])), Wave: wave})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "rollout %d of %s: approved after wave %s\n", res.GetRollout().GetNumber(), named(args[0]), res.GetRollout().GetWave())
			return err
		}),
	}
	cmd.Flags().StringVar(&wave, "wave", "", "the wave that you looked at; empty means the current one")
	return cmd
}

func replay(s *session.Session) *cobra.Command {
	number := int64(0)
	cmd := &cobra.Command{
		Use:   "replay POLICY",
		Short: "Repeat the decisions of a rollout from its events, and compare",
		Long: `Decide again from the recorded events what a rollout decided, and compare. The exit code is 1 if there is a difference: then the
hub decides otherwise than the one that drove the rollout.`,
		Example: "  leat rollout replay shops --number 3",
		Args:    onePolicy,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			res, err := c.ReplayRollout(ctx, &fleetv1.ReplayRolloutRequest{Name: s.Reference(kind, named(args[0])), Number: number})
			if err != nil {
				return err
			}
			if difference := res.GetDifference(); difference != "" {
				return failure.New("the replay differs: "+difference, "Look at the versions of the hub that drove the rollout, and report this.")
			}
			_, err = fmt.Fprintf(s.Out, "%d events lead to the same %d decisions\n", res.GetEvents(), res.GetDecisions())
			return err
		}),
	}
	cmd.Flags().Int64Var(&number, "number", 0, "number of the rollout; 0 means the latest")
	return cmd
}

// pause is `leat rollout pause`.
func pause(s *session.Session) *cobra.Command {
	end := lifetime.End{}
	cmd := &cobra.Command{
		Use:   "pause POLICY",
		Short: "Admit nobody until leat rollout resume",
		Long: `Admit nobody until leat rollout resume or, with --for or --until, until that time, when the rollout continues by itself. A paused
rollout can be given another time.`,
		Example: `  leat rollout pause shops --for 2h --reason "INC-42: look at eu-lab first"
  leat rollout pause shops --until 2026-12-01T08:00Z`,
		Args: onePolicy,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			until, err := end.At(time.Now())
			if err != nil {
				return err
			}
			request := &fleetv1.ControlRolloutRequest{Name: s.Reference(kind, named(args[0])), Verb: "pause", Until: until}
			return ask(ctx, s, c, args[0], request, "paused"+lifetime.Until(until))
		}),
	}
	end.Bind(cmd.Flags(), "the pause")
	return cmd
}

// ask sends a request, and prints what became of the rollout.
func ask(ctx context.Context, s *session.Session, c *client.Client, policy string, request *fleetv1.ControlRolloutRequest, done string) error {
	res, err := c.ControlRollout(ctx, request)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "rollout %d of %s is %s\n", res.GetRollout().GetNumber(), named(policy), done)
	return err
}

// control is a command that has the latest rollout of a policy do something.
func control(s *session.Session, verb, short, done string) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " POLICY",
		Short:   short,
		Long:    short + ".",
		Example: fmt.Sprintf("  leat rollout %s shops --reason \"see ticket 42\"", verb),
		Args:    onePolicy,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			return ask(ctx, s, c, args[0], &fleetv1.ControlRolloutRequest{Name: s.Reference(kind, named(args[0])), Verb: verb}, done)
		}),
	}
}

// Rollback is `leat rollback`.
func Rollback(s *session.Session) *cobra.Command {
	to, isReleased, end := int64(0), false, lifetime.End{}
	cmd := &cobra.Command{
		Use:   "rollback service/NAME",
		Short: "Pin a service to the content of an earlier revision",
		Long: `Pin a service to the content of an earlier revision of leat history, until leat rollback --release, or for a time with --for or --until.
New commits and rollouts pass it by until then. Its spec, its generation and its configuration stay as they are.

Without --to it is the latest revision that was healthy and had other content than the current one.`,
		Example: `  leat rollback service/shop --reason "checkout fails since 10:02"
  leat rollback service/shop --to 4 --for 2d
  leat rollback service/shop --release`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want one service, as service/NAME")
			}
			return nil
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name := strings.TrimPrefix(args[0], "service/")
			reference := s.Reference("Service", name)
			if isReleased {
				if _, err := c.ReleaseService(ctx, &fleetv1.ReleaseServiceRequest{Name: reference}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(s.Out, "service/%s follows its sources again\n", name)
				return err
			}
			until, err := end.At(time.Now())
			if err != nil {
				return err
			}
			res, err := c.RollbackService(ctx, &fleetv1.RollbackServiceRequest{Name: reference, Revision: to, Until: until})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "service/%s is pinned to revision %d (%s)%s\n", name, res.GetRevision(), strings.Join(res.GetCommits(), ", "), lifetime.Until(until))
			return err
		}),
	}
	cmd.Flags().Int64Var(&to, "to", 0, "number of the revision; 0 means the latest other one that was healthy")
	cmd.Flags().BoolVar(&isReleased, "release", false, "end the pin")
	end.Bind(cmd.Flags(), "the pin")
	for _, flag := range []string{"to", "for", "until"} {
		cmd.MarkFlagsMutuallyExclusive(flag, "release")
	}
	return cmd
}

func onePolicy(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the name of one rollout policy")
	}
	return nil
}

// named takes rolloutpolicy/NAME for NAME.
func named(word string) string { return strings.TrimPrefix(word, "rolloutpolicy/") }
