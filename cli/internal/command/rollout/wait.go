// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// goal is the state at which a wait ends.
type goal string

const (
	completed goal = "completed"
	approval  goal = "approval"
	ended     goal = "ended"
)

// Set, Type and String implement pflag.Value.
func (g *goal) Set(text string) error {
	if *g = goal(text); *g != completed && *g != approval && *g != ended {
		return errors.New("want completed, approval or ended")
	}
	return nil
}

// Type implements pflag.Value.
func (*goal) Type() string { return string(completed + "|" + approval + "|" + ended) }

func (g *goal) String() string { return string(*g) }

// minCommit is how many digits of a commit a person has to give at least.
const minCommit = 7

func wait(s *session.Session) *cobra.Command {
	w := waiter{session: s, goal: completed}
	cmd := &cobra.Command{
		Use:   "wait POLICY",
		Short: "Wait until a rollout has completed, has ended in any way, or waits for an approval",
		Long: `Wait until the latest rollout of a policy

  completed   has brought the change to all members
  approval    waits for a person: to approve a wave, or to decide about one that selects nobody
  ended       has completed, has taken the members back, or was aborted or replaced

For completed and approval the exit code is 1 as soon as the rollout cannot get there without somebody: it goes back, halted,
was aborted or replaced.
With --commit it waits for a rollout that brings that commit, and with --number for the rollout of that number, so that a
script which has just pushed or edited something does not see the rollout before. A commit that changes nothing in the
folders of the policy's services begins none.`,
		Example: `  git push && leat rollout wait shops --commit $(git rev-parse HEAD) --for approval
  leat rollout approve shops && leat rollout wait shops`,
		Args: onePolicy,
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := len(w.commit); n > 0 && n < minCommit {
				return fmt.Errorf("--commit: got %q, want at least %d digits", w.commit, minCommit)
			}
			return s.Fail(w.wait(cmd.Context(), s.Reference(kind, named(args[0])), named(args[0])))
		},
	}
	cmd.Flags().Var(&w.goal, "for", "what to wait for")
	cmd.Flags().StringVar(&w.commit, "commit", "", "wait for a rollout that brings this commit")
	cmd.Flags().Int64Var(&w.number, "number", 0, "wait for the rollout of this number; 0 means the latest")
	cmd.MarkFlagsMutuallyExclusive("commit", "number")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 30*time.Minute, "how long to wait")
	return cmd
}

type waiter struct {
	session *session.Session
	goal    goal
	commit  string
	number  int64
	timeout time.Duration

	last *fleetv1.Rollout
	told string
}

func (w *waiter) wait(ctx context.Context, reference, name string) error {
	err := w.session.Until(ctx, w.timeout, func(ctx context.Context, c *client.Client) (bool, error) {
		res, err := c.ListRollouts(ctx, &fleetv1.ListRolloutsRequest{Name: reference})
		if err != nil {
			return false, err
		}
		w.last = w.wanted(res.GetRollouts())
		if err := w.tell(name); err != nil || w.last == nil {
			return false, err
		}
		return w.hasArrived(name)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return w.unreached(name)
	}
	if err != nil {
		return err
	}
	r := w.last
	text := fmt.Sprintf("is %s: %d of %d arrived", r.GetState(), r.GetArrived(), r.GetTotal())
	switch {
	case w.goal == approval:
		text = "waits: " + r.GetWaitsFor()
	case r.GetWhy() != "":
		text += ": " + r.GetWhy()
	}
	_, err = fmt.Fprintf(w.session.Out, "rollout %d of %s %s\n", r.GetNumber(), name, text)
	return err
}

// wanted returns the rollout to wait for among the rollouts of a policy, the latest first; nil if
// it has not begun.
func (w *waiter) wanted(all []*fleetv1.Rollout) *fleetv1.Rollout {
	i := slices.IndexFunc(all, func(r *fleetv1.Rollout) bool {
		if w.commit == "" {
			return w.number == 0 || r.GetNumber() == w.number
		}
		return slices.ContainsFunc(r.GetContents(), func(c *fleetv1.RolloutContent) bool {
			return strings.HasPrefix(c.GetCommit(), w.commit)
		})
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// tell prints what the rollout does if it differs from what was printed last.
func (w *waiter) tell(name string) error {
	text := "no rollout has begun"
	if r := w.last; r != nil {
		text = fmt.Sprintf("rollout %d is %s, %d of %d arrived", r.GetNumber(), r.GetState(), r.GetArrived(), r.GetTotal())
		if why := r.GetWaitsFor(); why != "" {
			text += "; " + why
		}
	}
	if text == w.told {
		return nil
	}
	w.told = text
	_, err := fmt.Fprintf(w.session.Err, "%s: %s\n", name, text)
	return err
}

// hasArrived reports whether the rollout is at the goal of the wait. The error explains why it will
// not get there without a person.
func (w *waiter) hasArrived(name string) (bool, error) {
	r := w.last
	if w.goal == ended {
		return r.GetEndedAt() != nil, nil
	}
	switch state := r.GetState(); state {
	case "completed":
		if w.goal == approval {
			return false, failure.New(fmt.Sprintf("rollout %d of %s has completed and waited for nobody", r.GetNumber(), name), "")
		}
		return true, nil
	case "running", "paused":
		return w.goal == approval && state == "running" && r.GetWaitsOn() == "person", nil
	default: // rollingBack, halted, rolledBack, aborted, replaced
		return false, failure.New(fmt.Sprintf("rollout %d of %s is %s: %s", r.GetNumber(), name, state, r.GetWhy()),
			"leat rollout status "+name+" shows each member.")
	}
}

func (w *waiter) unreached(name string) error {
	if w.last == nil {
		which := "no rollout of " + name
		switch {
		case w.commit != "":
			which += " with commit " + w.commit
		case w.number > 0:
			which = fmt.Sprintf("no rollout %d of %s", w.number, name)
		}
		message := fmt.Sprintf("%s has begun within %s", which, w.timeout)
		return failure.New(message, "See in leat get repositories whether the commit was fetched; one that changes no folder of the policy's services begins no rollout.")
	}
	return failure.New(fmt.Sprintf("%s is not where it was waited for after %s: %s", name, w.timeout, w.told), "leat rollout status "+name+" shows each member.")
}
