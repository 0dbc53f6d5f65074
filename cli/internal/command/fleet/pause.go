// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/lifetime"
	"github.com/leatdev/leat/cli/internal/session"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Pause is `leat pause`.
func Pause(s *session.Session) *cobra.Command {
	end := lifetime.End{}
	cmd := onService(s, &cobra.Command{
		Use:   "pause service/NAME",
		Short: "Pause a service",
		Long: `Leave a service unchanged in its cluster: its objects are not applied, corrected or deleted, and no hook or test runs. Its health is
still watched and reported. The pause ends with leat resume or, with --for or --until, by itself at that time, by the hub's clock.

This sets spec.paused and spec.paused_until. If the service's document is applied from elsewhere, set them there, too, or the next leat
apply resumes it. A document whose time has passed may stay as it is: it means a service that is not paused.
A service that is derived from a global service is paused in its cluster alone, whatever is applied later.`,
		Example: `  leat pause service/shop --for 2h --reason "INC-42: the database is moved"
  leat pause service/shop --until 2026-12-01T08:00Z
  leat pause service/shop`,
	}, func(ctx context.Context, c *client.Client, name string) error {
		until, err := end.At(time.Now())
		if err != nil {
			return err
		}
		return pause(ctx, s, c, name, until)
	})
	end.Bind(cmd.Flags(), "the pause")
	return cmd
}

// Resume is `leat resume`.
func Resume(s *session.Session) *cobra.Command {
	return onService(s, &cobra.Command{
		Use:     "resume service/NAME",
		Short:   "Resume a paused service",
		Long:    "Resume a paused service: changes made in the meantime are applied at once.",
		Example: `  leat resume service/shop`,
	}, func(ctx context.Context, c *client.Client, name string) error { return resume(ctx, s, c, name) })
}

// pause pauses a service until a time, or until it is resumed for nil.
func pause(ctx context.Context, s *session.Session, c *client.Client, name string, until *timestamppb.Timestamp) error {
	before, err := changePause(ctx, c, name, true, until)
	if err != nil {
		return err
	}
	word := "paused"
	if isPausedUntil(before, until) && !before.GetStatus().GetPauseEnded() {
		word = "paused already"
	}
	_, err = fmt.Fprintf(s.Out, "service/%s is %s%s\n", name, word, lifetime.Until(until))
	return err
}

// resume ends the pause of a service, and clears one that has ended.
func resume(ctx context.Context, s *session.Session, c *client.Client, name string) error {
	before, err := changePause(ctx, c, name, false, nil)
	if err != nil {
		return err
	}
	switch {
	case !before.GetSpec().GetPaused():
		_, err = fmt.Fprintf(s.Out, "service/%s is not paused\n", name)
	case before.GetStatus().GetPauseEnded():
		_, err = fmt.Fprintf(s.Out, "service/%s is not paused: it was%s\n", name, lifetime.Until(before.GetSpec().GetPausedUntil()))
	default:
		_, err = fmt.Fprintf(s.Out, "service/%s is resumed\n", name)
	}
	return err
}

func isPausedUntil(service *fleetv1.Service, until *timestamppb.Timestamp) bool {
	return service.GetSpec().GetPaused() && proto.Equal(service.GetSpec().GetPausedUntil(), until)
}

// changePause reads the service and stores it with another pause, and retries if another caller stores it in
// between. It returns the service as it was. One that has the pause already is not stored.
func changePause(ctx context.Context, c *client.Client, name string, paused bool, until *timestamppb.Timestamp) (before *fleetv1.Service, err error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	const tries = 5
	for range tries {
		service, err := fleetcalls.Get[*fleetv1.Service](ctx, c, name)
		if err != nil {
			return nil, orMissing(err, serviceTarget(name))
		}
		before = proto.CloneOf(service)
		if paused && isPausedUntil(service, until) || !paused && !service.GetSpec().GetPaused() {
			return before, nil
		}
		service.Spec.Paused, service.Spec.PausedUntil = paused, until
		_, err = fleetcalls.Update(ctx, c, service)
		if !isConflict(err) {
			return before, orMissing(err, serviceTarget(name))
		}
	}
	return nil, connect.NewError(connect.CodeAborted, fmt.Errorf("service %s keeps being changed by others", name))
}

func isConflict(err error) bool {
	return err != nil && rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_VERSION_CONFLICT
}
