// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// KillAPIServer kills the API server, and nothing else. StartAPIServer runs it again. Requests fail
// in between.
func (cp *ControlPlane) KillAPIServer() {
	cp.restarting.Lock()
	defer cp.restarting.Unlock()
	server := cp.processes[apiServerPlace]
	cp.mu.Lock()
	server.expected = true
	cp.mu.Unlock()
	cp.client.close()
	server.kill()
}

// StartAPIServer runs the API server again after KillAPIServer, at the same address, and returns
// when it is ready. It fails if another process took the port.
func (cp *ControlPlane) StartAPIServer(ctx context.Context) error {
	cp.restarting.Lock()
	defer cp.restarting.Unlock()
	cp.mu.Lock()
	stopping := cp.stopping
	cp.mu.Unlock()
	old := cp.processes[apiServerPlace]
	if stopping || !old.ended() {
		return errors.New("start kube-apiserver: KillAPIServer has not ended it")
	}
	server, err := startProcess(old.command)
	if err != nil {
		return err
	}
	cp.processes = slices.Clone(cp.processes)
	cp.processes[apiServerPlace] = server
	if err := cp.waitFor(ctx, "kube-apiserver to be ready", cp.client.ready); err != nil {
		return err
	}
	go cp.watch(server)
	return nil
}

// CompactHistory makes etcd forget all versions of objects except the newest. The API server does
// the same every few minutes for older versions.
func (cp *ControlPlane) CompactHistory(ctx context.Context) error {
	etcd, end, err := cp.etcdClient()
	if err != nil {
		return fmt.Errorf("compact history: %w", err)
	}
	defer end()
	var found struct{ Header struct{ Revision string } }
	if err := etcd.do(ctx, http.MethodPost, "/v3/kv/range", map[string]any{"key": []byte{0}}, &found); err != nil {
		return fmt.Errorf("compact history: %w", err)
	}
	request := map[string]any{"revision": found.Header.Revision, "physical": true}
	if err := etcd.do(ctx, http.MethodPost, "/v3/kv/compaction", request, nil); err != nil {
		return fmt.Errorf("compact history: %w", err)
	}
	return nil
}
