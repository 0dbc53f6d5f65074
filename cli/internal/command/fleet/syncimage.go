// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// syncImagePolicy makes an image policy look now. It waits at most so long for the result, and not at all if wait is zero.
func syncImagePolicy(ctx context.Context, s *session.Session, name string, wait time.Duration) error {
	name = s.Reference("ImagePolicy", name)
	var requested int64
	err := s.Call(ctx, func(ctx context.Context, c *client.Client) error {
		res, err := c.Images.SyncImagePolicy(ctx, &fleetv1.SyncImagePolicyRequest{Name: name})
		requested = res.GetRequest()
		return err
	})
	if err != nil {
		return err
	}
	if wait == 0 {
		_, err = fmt.Fprintf(s.Out, "imagepolicy/%s is being synced\n", name)
		return err
	}
	var last *fleetv1.ImagePolicy
	err = s.Until(ctx, wait, func(ctx context.Context, c *client.Client) (bool, error) {
		object, err := c.One(ctx, "ImagePolicy", name)
		if err != nil {
			return false, err
		}
		last = object.GetImagePolicy()
		if last.GetSpec().GetSuspended() {
			return false, failure.New("imagepolicy/"+name+" is suspended, so it looks at nothing", "Set its spec.suspended to false.")
		}
		return last.GetStatus().GetObservedRequest() >= requested, nil
	})
	status := last.GetStatus()
	switch problem := status.GetProblem(); {
	case errors.Is(err, context.DeadlineExceeded):
		return failure.New(fmt.Sprintf("imagepolicy/%s was not looked at within %s", name, wait), "leat get imagepolicies shows its latest look.")
	case err != nil:
		return err
	case problem != nil:
		return failure.New(fmt.Sprintf("imagepolicy/%s: %s", name, problem.GetMessage()), failure.Advice(problem.GetReason()))
	}
	_, err = fmt.Fprintf(s.Out, "imagepolicy/%s selects %s:%s\n", name, status.GetImage(), status.GetTag())
	return err
}
