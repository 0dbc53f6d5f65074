// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/leatdev/leat/internal/testkit/await"
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
			ended <- c.client.Leadership().Lead(ctx, kube.Election{Replica: replica, Lease: lease}, func(ctx context.Context, number int) error {
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

// TestLeaderIsNamed has the lease name the version of the agent that leads, also when it has ended, and show each renewal.
func TestLeaderIsNamed(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	leadership := c.client.Leadership()
	leader := func() kube.Leader {
		t.Helper()
		found, err := leadership.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := leader(); got != (kube.Leader{}) {
		t.Errorf("before the first term: got %+v, want nothing", got)
	}
	for _, version := range []string{"v1.2.3+build.7", "v1.2.4"} {
		var first kube.Leader
		election := kube.Election{Replica: version, Version: version, Lease: 6 * time.Second}
		if err := leadership.Lead(t.Context(), election, func(context.Context, int) error {
			first = leader()
			await.Poll(t, "a renewal", 100*time.Millisecond, func() (bool, string) { return leader().Sign != first.Sign, first.Sign })
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, got := range []kube.Leader{first, leader()} {
			if want := kube.VersionLabel(version); got.Version != want || got.Sign == "" {
				t.Errorf("got %+v, want version %s", got, want)
			}
		}
	}
}

func TestVersionLabel(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"": "", "0.1.0-dev": "0.1.0-dev", "v1.2.3+build.7": "v1.2.3_build.7", "+é+": "", strings.Repeat("a", 62) + ".b": strings.Repeat("a", 62),
	} {
		if got := kube.VersionLabel(version); got != want || len(validation.IsValidLabelValue(got)) > 0 {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

// TestWarn attaches an event to a Pod.
func TestWarn(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	if err := c.client.EnsureNamespace(t.Context(), "leat-system"); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Leadership().Warn(t.Context(), "uid-1", "TakeoverWaits", strings.Repeat("é", 600)); err != nil {
		t.Fatal(err)
	}
	_, answer := c.request(t, http.MethodGet, "/api/v1/namespaces/leat-system/events?fieldSelector=involvedObject.uid%3Duid-1,type%3DWarning", "", "")
	events, _ := answer["items"].([]any)
	if len(events) != 1 {
		t.Fatalf("got %v, want one event", answer)
	}
	if got := events[0].(map[string]any); got["reason"] != "TakeoverWaits" || got["message"] != strings.Repeat("é", 512) {
		t.Errorf("got %v, want the reason, and as much of the message as an event may have", got)
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
