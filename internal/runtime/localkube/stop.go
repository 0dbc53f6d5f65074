// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Stop ends all components and returns when their processes are gone: first the components that use
// the API server, then the API server, then etcd. Processes that have not ended when ctx does are
// killed, and the error names them. The data is safe even then. Further calls do nothing.
func (cp *ControlPlane) Stop(ctx context.Context) error {
	if !cp.expectEnd() {
		return nil
	}
	cp.restarting.Lock()
	defer cp.restarting.Unlock()
	defer func() { _ = cp.lock.Close() }()
	cp.client.close()

	const servers = apiServerPlace + 1
	users := cp.processes[servers:]
	errs := make([]error, len(users))
	defer cp.metrics.close()
	var group sync.WaitGroup
	for i, p := range users {
		group.Go(func() { errs[i] = p.stop(ctx) })
	}
	group.Wait()
	for _, p := range slices.Backward(cp.processes[:servers]) {
		errs = append(errs, p.stop(ctx))
	}
	return errors.Join(errs...)
}

// kill ends all components at once, after a failed start.
func (cp *ControlPlane) kill() {
	for _, p := range cp.processes {
		p.kill()
	}
	cp.metrics.close()
	_ = cp.lock.Close()
}

// expectEnd makes the end of components no failure from now on. It reports
// whether this call was the first.
func (cp *ControlPlane) expectEnd() bool {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	first := !cp.stopping
	cp.stopping = true
	return first
}
