// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
)

// idle are the API servers that Borrow has started and no test holds.
var idle pool

type pool struct {
	mu      sync.Mutex
	running bool   // in Run, which ends the servers
	dir     string // of all data directories; made with the first server
	started int
	servers []*server
}

// server is an API server with what it held at its start.
type server struct {
	*localkube.ControlPlane

	empty localkube.Snapshot
}

// Run runs the tests of a package in which some call Borrow. It returns what TestMain hands to
// os.Exit.
func Run(m *testing.M) int {
	idle.running = true
	code := m.Run()
	if err := idle.end(); err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		return max(code, 1)
	}
	return code
}

// Borrow returns an API server without controllers (Params.APIServerOnly) that the test has to
// itself until it ends. It may have served other tests, but it holds what a new one holds. The
// package's TestMain must call Run. A test that needs other parameters or the audit log calls
// Start.
func Borrow(t testing.TB) *localkube.ControlPlane {
	t.Helper()
	s := idle.take()
	if s == nil {
		s = idle.start(t)
	}
	t.Cleanup(func() { idle.put(t, s) })
	return s.ControlPlane
}

// take returns an idle server, or nil if tests hold all of them.
func (p *pool) take() *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.servers) == 0 {
		return nil
	}
	last := len(p.servers) - 1
	s := p.servers[last]
	p.servers = p.servers[:last]
	return s
}

// dataDir returns a new server's data directory.
func (p *pool) dataDir() (dir string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return "", errors.New("TestMain does not call Run")
	}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "kubetest"); err != nil {
			return "", err
		}
	}
	p.started++
	return filepath.Join(p.dir, strconv.Itoa(p.started)), nil
}

// start starts a server.
func (p *pool) start(t testing.TB) *server {
	t.Helper()
	dir, err := p.dataDir()
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	ctx, cancel := setupContext(t)
	defer cancel()
	cp, err := localkube.Start(ctx, localkube.Params{Binaries: Binaries(ctx, t), DataDir: dir, APIServerOnly: true})
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	empty, err := localkube.TakeSnapshot(ctx, cp)
	if err != nil {
		stop(t, cp)
		t.Fatalf("kubetest: %v", err)
	}
	return &server{ControlPlane: cp, empty: empty}
}

// put keeps s for the next test, unless it cannot be made like new.
func (p *pool) put(t testing.TB, s *server) {
	if t.Failed() || s.Err() != nil { // a test that failed may have left something running
		stop(t, s.ControlPlane)
		return
	}
	// The test's context has ended by the time its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	if err := s.empty.Restore(ctx, s.ControlPlane); err != nil {
		t.Logf("kubetest: the next test gets another API server: %v", err)
		stop(t, s.ControlPlane)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = append(p.servers, s)
}

// end stops all servers and deletes their data.
func (p *pool) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(p.servers))
	var group sync.WaitGroup
	for i, s := range p.servers {
		group.Go(func() { errs[i] = errors.Join(s.Err(), s.Stop(ctx)) })
	}
	group.Wait()
	if p.dir == "" {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}
