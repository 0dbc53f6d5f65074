// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/services/agent/internal/kube"
)

// TestLead has replicas take turns.
func TestLead(t *testing.T) {
	t.Parallel()
	const lease = 15 * time.Second // of which a busy machine may miss some renewals, and not all
	c := startCluster(t)
	var leaders atomic.Int32
	lead := func(ctx context.Context, replica string, begun chan<- string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- c.client.Lead(ctx, kube.Election{Replica: replica, Lease: lease}, func(ctx context.Context, number int) error {
				if leaders.Add(1) > 1 {
					t.Error("two replicas lead at once")
				}
				defer leaders.Add(-1)
				begun <- fmt.Sprint(replica, " ", number)
				<-ctx.Done()
				return nil
			})
		}()
		return ended
	}
	begun := make(chan string, 2)
	first, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	firstEnded := lead(first, "first", begun)
	if got := <-begun; got != "first 0" {
		t.Fatalf("got %s as the leader, want first 0", got)
	}
	second, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	secondEnded := lead(second, "second", begun)
	third, stopThird := context.WithCancel(t.Context())
	thirdEnded := lead(third, "third", make(chan string, 1))
	stopThird() // candidates wait for leadership no longer than is wanted
	if err := <-thirdEnded; err != nil {
		t.Errorf("a replica that is stopped while it waits: got %v, want nil", err)
	}

	stopFirst()
	if err := <-firstEnded; err != nil {
		t.Errorf("a leader that is stopped: got %v, want nil", err)
	}
	if got := <-begun; got != "second 1" {
		t.Fatalf("got %s as the leader, want second 1", got)
	}
	// A person deletes the lease.
	status, answer := c.request(t, http.MethodPatch, "/apis/coordination.k8s.io/v1/namespaces/leat-system/leases/leat-agent", mergePatch,
		`{"spec":{"holderIdentity":"usurper","leaseDurationSeconds":3600}}`)
	if status != http.StatusOK {
		t.Fatalf("take the lease away: got %d %v", status, answer)
	}
	if err := <-secondEnded; !errors.Is(err, kube.ErrLeadershipLost) {
		t.Errorf("a leader whose lease is gone: got %v, want ErrLeadershipLost", err)
	}
}

// TestKeep stores and loads small files.
func TestKeep(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	keep := c.client.Keep()
	load := func() string {
		t.Helper()
		files, err := keep.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(files["a"]) + string(files["b"])
	}
	if got := load(); got != "" {
		t.Errorf("at first: got %q, want nothing", got)
	}
	for _, files := range []map[string][]byte{{"a": []byte("1"), "b": []byte("2")}, {"a": []byte("3")}} {
		if err := keep.Store(t.Context(), files); err != nil {
			t.Fatal(err)
		}
		if want := string(files["a"]) + string(files["b"]); load() != want {
			t.Errorf("got %q, want %q", load(), want)
		}
	}
	// A Secret that came with the backup of another cluster is ignored.
	c.request(t, http.MethodPatch, "/api/v1/namespaces/leat-system/secrets/leat-agent-identity", mergePatch,
		`{"metadata":{"annotations":{"leat.dev/cluster-uid":"another"}}}`)
	if got := load(); got != "" {
		t.Errorf("of another cluster: got %q, want nothing", got)
	}
}
