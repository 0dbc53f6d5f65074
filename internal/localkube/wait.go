// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"fmt"
	"time"
)

// waitFor polls until check returns nil. It fails when ctx or a component ends; the error names
// what it waited for and the last result.
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

// sleep blocks for d. If ctx ends first, it returns the context's error.
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
