// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubetest starts a real Kubernetes control plane for a test, or lends it an API server that
// the tests of a package use one after the other.
package kubetest

import (
	"context"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
)

// margin is the time that a test binary keeps for its own report when a build or start is
// abandoned.
const margin = 20 * time.Second

// Start builds the control plane if necessary, starts one in a temporary directory, and stops it
// when the test ends. Each option may change the control plane, for example
//
//	kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true })
//
// The first build takes minutes, which may be more than a test binary has:
// `go run ./internal/runtime/localkube/cmd/leat-kube build` does it beforehand.
func Start(t testing.TB, options ...func(*localkube.Params)) *localkube.ControlPlane {
	t.Helper()
	ctx, cancel := setupContext(t)
	defer cancel()

	params := localkube.Params{Binaries: Binaries(ctx, t), DataDir: t.TempDir()}
	for _, option := range options {
		option(&params)
	}
	cp, err := localkube.Start(ctx, params)
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	t.Cleanup(func() { stop(t, cp) })
	return cp
}

// Binaries builds the control plane if necessary. Most tests call Start instead.
func Binaries(ctx context.Context, t testing.TB) localkube.Binaries {
	t.Helper()
	binaries, err := localkube.Build(ctx, localkube.BuildParams{Progress: func(line string) { t.Log("kubetest: " + line) }})
	if err != nil {
		t.Fatalf("kubetest: %v\nto build beforehand: go run ./internal/runtime/localkube/cmd/leat-kube build --helm", err)
	}
	return binaries
}

func stop(t testing.TB, cp *localkube.ControlPlane) {
	if err := cp.Err(); err != nil {
		t.Errorf("kubetest: the control plane broke during the test: %v", err)
	}
	// The test's context has ended by the time its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	if err := cp.Stop(ctx); err != nil {
		t.Errorf("kubetest: %v", err)
	}
}

// setupContext ends early enough for the test to report what it waited for.
func setupContext(t testing.TB) (context.Context, context.CancelFunc) {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok {
			return context.WithDeadline(t.Context(), deadline.Add(-margin))
		}
	}
	return context.WithCancel(t.Context())
}
