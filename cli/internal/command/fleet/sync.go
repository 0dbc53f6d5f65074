// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/command/fleetsource"
	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/syncrequest"
)

// Sync is `leat sync`.
func Sync(s *session.Session) *cobra.Command {
	w := waiter{session: s, goal: delivery.Healthy}
	wait, request := false, &fleetv1.SyncServiceRequest{}
	cmd := onService(s, &cobra.Command{
		Use:   "sync service/NAME",
		Short: "Fetch and apply a service now",
		Long: `Fetch a service's repositories now instead of at the next poll, and let its agent reconcile it even if nothing changed.
With --wait it returns when that is done and the service is healthy, as leat wait does; it also ends, with exit code 1, when
the prune guard asks for an agreement.

With --regenerate, what the service's charts made by chance, such as passwords and certificates, is made again.

It fails when a repository cannot be fetched; the last known content is reconciled anyway.

leat sync repository/NAME fetches a repository alone, and waits for that: services follow if it has moved. A webhook of the
Git host makes this unnecessary (docs/guides/webhooks.md).

leat sync fleetsource/NAME has a fleet source look at its repository now, as leat fleetsource sync does.

leat sync imagepolicy/NAME has an image policy look at the tags and at Git now. With --wait it returns when that is done; the exit code is 1 if
there is a problem then. A pull request that people have closed is opened again.`,
		Example: `  leat sync service/shop
  leat sync service/shop@berlin --wait --timeout=2m   (one of several clusters' shop)
  leat sync service/shop --regenerate
  leat sync repository/shop`,
	}, func(ctx context.Context, c *client.Client, name string) error {
		request.Name = name
		return w.sync(ctx, c, request, wait)
	})
	ofService := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if source, ok := strings.CutPrefix(args[0], "fleetsource/"); ok {
			timeout := w.timeout
			if !wait {
				timeout = 0
			}
			return s.Fail(fleetsource.Sync(cmd.Context(), s, source, timeout))
		}
		if policy, ok := strings.CutPrefix(args[0], "imagepolicy/"); ok {
			timeout := w.timeout
			if !wait {
				timeout = 0
			}
			return s.Fail(syncImagePolicy(cmd.Context(), s, policy, timeout))
		}
		if repository, ok := strings.CutPrefix(args[0], "repository/"); ok {
			return s.Fail(syncRepository(cmd.Context(), s, repository))
		}
		return ofService(cmd, args)
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done")
	cmd.Flags().BoolVar(&request.Regenerate, "regenerate", false, "make passwords and certificates of its charts again")
	cmd.Flags().Var(&w.goal, "for", "what to wait for")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// syncRepository has a repository fetched, and waits for that.
func syncRepository(ctx context.Context, s *session.Session, name string) error {
	name = s.Reference("Repository", name)
	var problem *typev1.Problem
	err := s.Call(ctx, func(ctx context.Context, c *client.Client) error {
		response, err := c.SyncRepository(ctx, &fleetv1.SyncRepositoryRequest{Name: name})
		problem = response.GetProblem()
		return err
	})
	if err != nil {
		return err
	}
	if problem != nil {
		return failure.New(fmt.Sprintf("repository/%s was not fetched: %s: %s", name,
			strings.TrimPrefix(problem.GetReason().String(), "REASON_"), problem.GetMessage()), failure.Advice(problem.GetReason()))
	}
	_, err = fmt.Fprintf(s.Out, "repository/%s is as its upstream\n", name)
	return err
}

func (w *waiter) sync(ctx context.Context, c *client.Client, request *fleetv1.SyncServiceRequest, wait bool) error {
	name := request.GetName()
	response, err := requestSync(ctx, c, request)
	if err != nil {
		return err
	}
	if request.GetRegenerate() && !syncrequest.Regenerates(response.GetSyncRequest()) {
		return failure.New(fmt.Sprintf("service/%s is being synced, but this hub is too old to have values made again", name), "upgrade the hub")
	}
	if wait {
		w.syncRequest = response.GetSyncRequest()
		err = w.wait(ctx, c, name)
	} else {
		_, err = fmt.Fprintf(w.session.Out, "service/%s is being synced\n", name)
	}
	if problem := response.GetProblem(); err == nil && problem != nil {
		return notFetched(name, problem)
	}
	return err
}

// notFetched returns the failure of a sync that fetched nothing, even if the service is healthy: a
// user who has just pushed would otherwise assume that the push has arrived.
func notFetched(name string, problem *typev1.Problem) error {
	reason := strings.TrimPrefix(problem.GetReason().String(), "REASON_")
	return failure.New(fmt.Sprintf("service/%s was synced to the last known content, because its repositories were not fetched: %s: %s",
		name, reason, problem.GetMessage()), failure.Advice(problem.GetReason()))
}

func requestSync(ctx context.Context, c *client.Client, request *fleetv1.SyncServiceRequest) (*fleetv1.SyncServiceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	response, err := c.SyncService(ctx, request)
	return response, orMissing(err, serviceTarget(request.GetName()))
}
