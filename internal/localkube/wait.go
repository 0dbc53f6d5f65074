// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"time"
)

// waitFor asks again and again until check returns nil. It gives up when ctx
// ends or a component does; the error then tells what it waited for and the
// last answer.
func (cp *ControlPlane) waitFor(ctx context.Context, what string, check func(context.Context) error) error {
	const interval = 50 * time.Millisecond
	for {
		last := check(ctx)
		if last == nil {
			return nil
		}
		for _, p := range cp.processes {
			if p.ended() {
				return p.failure()
			}
		}
		if err := sleep(ctx, interval); err != nil {
			newest := cp.processes[len(cp.processes)-1]
			return fmt.Errorf("wait for %s: %w; last answer: %w%s", what, err, last, newest.logTail())
		}
	}
}

// sleep waits for d, or for the end of ctx and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
