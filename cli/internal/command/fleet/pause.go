// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Pause is `leat pause`.
func Pause(s *session.Session) *cobra.Command {
	return pausing(s, true, &cobra.Command{
		Use:   "pause service/NAME",
		Short: "Pause a service",
		Long: `Leave a service unchanged in its cluster until leat resume: its objects are not applied, corrected or deleted, and no hook or test runs. Its
health is still watched and reported.

This sets spec.paused. If the service's document is applied from elsewhere, set it there, too, or the next leat apply resumes it.
A service that is derived from a global service is paused in its cluster alone, whatever is applied later.`,
		Example: `  leat pause service/shop`,
	})
}

// Resume is `leat resume`.
func Resume(s *session.Session) *cobra.Command {
	return pausing(s, false, &cobra.Command{
		Use:     "resume service/NAME",
		Short:   "Resume a paused service",
		Long:    "Resume a paused service: changes made in the meantime are applied at once.",
		Example: `  leat resume service/shop`,
	})
}

func pausing(s *session.Session, paused bool, cmd *cobra.Command) *cobra.Command {
	return onService(s, cmd, func(ctx context.Context, c *client.Client, name string) error {
		return setPaused(ctx, s, c, name, paused)
	})
}

func setPaused(ctx context.Context, s *session.Session, c *client.Client, name string, paused bool) error {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	changed, err := changePaused(ctx, c, name, paused)
	if err != nil {
		return orMissing(err, serviceTarget(name))
	}
	word := "resumed"
	if paused {
		word = "paused"
	}
	if !changed {
		word = "not paused"
		if paused {
			word = "paused already"
		}
	}
	_, err = fmt.Fprintf(s.Out, "service/%s is %s\n", name, word)
	return err
}

// changePaused reads the service and stores it, and retries if another caller stores it in between.
func changePaused(ctx context.Context, c *client.Client, name string, paused bool) (changed bool, err error) {
	const tries = 5
	for range tries {
		response, err := fleetcalls.Get[*fleetv1.Service](ctx, c, name)
		if err != nil {
			return false, err
		}
		service := response
		if service.GetSpec().GetPaused() == paused {
			return false, nil
		}
		service.Spec.Paused = paused
		_, err = fleetcalls.Update(ctx, c, service)
		if !isConflict(err) {
			return err == nil, err
		}
	}
	return false, connect.NewError(connect.CodeAborted, fmt.Errorf("service %s keeps being changed by others", name))
}

func isConflict(err error) bool {
	return err != nil && rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_VERSION_CONFLICT
}
