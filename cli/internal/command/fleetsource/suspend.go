// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsource

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/lifetime"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

func suspend(s *session.Session) *cobra.Command {
	end := lifetime.End{}
	cmd := &cobra.Command{
		Use:   "suspend NAME",
		Short: "Let people edit by hand what a fleet source manages",
		Long: `Suspend a fleet source: it looks at nothing and writes nothing, and people may edit what it manages. That ends with leat fleetsource
resume or, with --for or --until, by itself at that time, by the hub's clock; the source then puts right what differs.

This sets spec.suspended and spec.suspended_until. If the source's own document is applied from elsewhere, the next apply ends it.`,
		Example: `  leat fleetsource suspend fleet --for 2h --reason "INC-42: scale by hand"
  leat fleetsource suspend fleet --until 2026-12-01T08:00Z`,
		Args: oneName,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			until, err := end.At(time.Now())
			if err != nil {
				return err
			}
			if _, err := setSuspended(ctx, s, c, args[0], true, until); err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "fleetsource/%s is suspended%s\n", named(args[0]), lifetime.Until(until))
			return err
		}),
	}
	end.Bind(cmd.Flags(), "the suspension")
	return cmd
}

func resume(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "resume NAME",
		Short:   "End the suspension of a fleet source",
		Long:    "End the suspension of a fleet source: it puts right what differs from its documents.",
		Example: `  leat fleetsource resume fleet`,
		Args:    oneName,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			before, err := setSuspended(ctx, s, c, args[0], false, nil)
			if err != nil {
				return err
			}
			word := "resumed"
			if !before.GetSpec().GetSuspended() || before.GetStatus().GetSuspensionEnded() {
				word = "not suspended"
			}
			_, err = fmt.Fprintf(s.Out, "fleetsource/%s is %s\n", named(args[0]), word)
			return err
		}),
	}
}

// setSuspended stores a fleet source suspended until a time, or not, and returns it as it was. An edit by another
// caller in between is a conflict, which the hub reports.
func setSuspended(
	ctx context.Context, s *session.Session, c *client.Client, name string, isSuspended bool, until *timestamppb.Timestamp,
) (*fleetv1.FleetSource, error) {
	object, err := c.One(ctx, kind, s.Reference(kind, named(name)))
	if err != nil {
		return nil, err
	}
	source := object.GetFleetSource()
	before := &fleetv1.FleetSource{
		Spec:   &fleetv1.FleetSourceSpec{Suspended: source.GetSpec().GetSuspended()},
		Status: &fleetv1.FleetSourceStatus{SuspensionEnded: source.GetStatus().GetSuspensionEnded()},
	}
	source.Spec.Suspended, source.Spec.SuspendedUntil = isSuspended, until
	_, err = fleetcalls.Update(ctx, c, source)
	return before, err
}
