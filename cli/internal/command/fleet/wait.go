// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Wait is `leat wait`.
func Wait(s *session.Session) *cobra.Command {
	w := waiter{session: s, goal: delivery.Healthy}
	cmd := onService(s, &cobra.Command{
		Use:   "wait service/NAME",
		Short: "Wait until a service is healthy or synced",
		Long: `Wait until a service is

  healthy   the current content of its sources is applied, and every object is healthy
  synced    the current content of its sources is applied

On the way it prints what the service is doing, and the reason when something fails. A failure does not end the wait,
because most are resolved automatically (an upstream comes back) or by a push; the timeout does, with exit code 1 and
the last state.`,
		Example: `  leat wait service/shop
  leat wait service/shop --for=synced --timeout=30s
  git push && leat sync service/shop --wait`,
	}, w.wait)
	cmd.Flags().Var(&w.goal, "for", "what to wait for")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// errGuarded ends the wait for a sync that is blocked until a person agrees.
var errGuarded = errors.New("the deletion of objects needs an agreement")

type waiter struct {
	session *session.Session
	goal    delivery.Goal
	timeout time.Duration

	syncRequest string // must have been carried out too; empty: any state counts
	last        *fleetv1.Service
	told        string
}

func (w *waiter) wait(ctx context.Context, c *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	// The watch does not report objects that do not exist.
	service, err := fleetcalls.Get[*fleetv1.Service](ctx, c, name)
	switch {
	case err == nil:
		w.last = service
		name = document.ServiceReference(w.last)
	case connect.CodeOf(err) == connect.CodeNotFound:
		return orMissing(err, serviceTarget(name))
	case rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_NAME_AMBIGUOUS:
		return err
	}
	err = c.Follow(ctx, &fleetv1.WatchRequest{Kind: "Service", Name: name}, w.see)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return w.unreached(fmt.Sprintf("service/%s is not %s after %s", name, w.goal, w.timeout), name)
	case errors.Is(err, errGuarded):
		return w.unreached(fmt.Sprintf("service/%s is not %s", name, w.goal), name)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.session.Out, "service/%s is %s%s\n", name, w.goal, delivered(w.last))
	return err
}

func delivered(service *fleetv1.Service) string {
	if versions := delivery.Versions(service.GetStatus()); versions != "" {
		return " at " + versions
	}
	return ""
}

func (w *waiter) see(change *fleetv1.WatchResponse) error {
	service := change.GetDocument().GetService()
	switch {
	case service == nil:
		return nil
	case change.GetDeleted():
		return failure.New("service/"+document.ServiceReference(service)+" was deleted", "")
	}
	w.last = service
	if w.goal.Reached(service) && w.carriedOut(service) {
		return client.ErrStop
	}
	if w.syncRequest != "" && w.carriedOut(service) && delivery.Guarded(service) {
		return errGuarded
	}
	return w.tell(service)
}

func (w *waiter) carriedOut(service *fleetv1.Service) bool {
	return w.syncRequest == "" || service.GetStatus().GetReport().GetObservedSyncRequest() == w.syncRequest
}

// tell prints the state if it differs from the previous one.
func (w *waiter) tell(service *fleetv1.Service) error {
	state := delivery.Describe(service)
	if state == w.told {
		return nil
	}
	w.told = state
	_, err := fmt.Fprintf(w.session.Err, "service/%s: %s\n", document.ServiceReference(service), state)
	return err
}

// unreached returns the error of a wait that ended before its goal.
func (w *waiter) unreached(message, name string) error {
	if w.last == nil {
		return failure.New(message, "The hub did not answer in that time.")
	}
	if w.goal.Reached(w.last) && !w.carriedOut(w.last) {
		return failure.New(fmt.Sprintf("the sync of service/%s was not carried out within %s; before it, it is %s", name, w.timeout, w.goal),
			"See in leat get clusters whether its agent is connected, and in leat get repositories when they were checked.")
	}
	f := failure.New(message+": "+delivery.Describe(w.last), "")
	if problem := w.last.GetStatus().GetProblem(); problem != nil {
		f.Advice = failure.Advice(problem.GetReason())
	}
	if len(w.last.GetStatus().GetReport().GetObjects()) > 0 {
		f.Advice = strings.TrimSpace(f.Advice + "\n" + unhealthy(w.last))
	}
	return f
}

// unhealthy lists the objects that need attention.
func unhealthy(service *fleetv1.Service) string {
	var lines []string
	for _, object := range service.GetStatus().GetReport().GetObjects() {
		ref := object.GetRef()
		line := fmt.Sprintf("  %s %s/%s", ref.GetKind(), ref.GetNamespace(), ref.GetName())
		text := object.GetProblem().GetMessage()
		// An object that could not be changed is still as healthy as before, which is not why it is here.
		if text == "" || object.GetHealth() != typev1.Health_HEALTH_HEALTHY {
			line += ": " + document.EnumName(object.GetHealth())
		}
		if text != "" {
			line += ": " + text
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
