// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
)

// sessions are people at work in a cluster through the tunnel. None of their requests may fail, and no
// watch may end.
type sessions struct {
	rig       *rig
	namespace string
	// ctx ends when they go home.
	ctx      context.Context
	running  sync.WaitGroup
	requests atomic.Int64
	watched  atomic.Int64
	// synced counts watches that have shown what was there.
	synced atomic.Int64
	// last counts watches that have shown the object "last".
	last atomic.Int64
}

func (s *sessions) configMaps(way string) string {
	return s.rig.url(way) + "/api/v1/namespaces/" + s.namespace + "/configmaps"
}

// watch follows the ConfigMaps of the namespace as kubectl get --watch does.
func (s *sessions) watch(t *testing.T, way string) {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.configMaps(way)+"?watch=true", http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := s.rig.people.Do(request)
	if err != nil {
		t.Errorf("watch by %s: %v", way, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	events := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string `json:"type"`
			Object struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			} `json:"object"`
		}
		if err := events.Decode(&event); err != nil {
			if s.ctx.Err() == nil {
				t.Errorf("watch by %s ended: %v (%s)", way, err, response.Status)
			}
			return
		}
		if s.watched.Add(1); event.Type == "ERROR" {
			t.Errorf("watch by %s: got %+v", way, event)
			return
		}
		switch event.Object.Metadata.Name {
		case "first":
			s.synced.Add(1)
		case "last":
			s.last.Add(1)
		}
	}
}

// work makes requests, each fifth with a new access token, and creates an object now and then.
func (s *sessions) work(t *testing.T, way string, i int) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	client := s.rig.people
	for n := 0; s.ctx.Err() == nil; n++ {
		<-pause.C
		if n%5 == 4 {
			access, err := s.rig.fleet.CreateAccessToken(context.WithoutCancel(s.ctx), &fleetv1.CreateAccessTokenRequest{Audience: identity.ServiceTunnel})
			if err != nil {
				t.Errorf("session %d: access token: %v", i, err)
				return
			}
			person, _ := s.rig.people.Transport.(bearer)
			client = &http.Client{Transport: bearer{token: access.GetAccessToken(), next: person.next}}
		}
		if !s.request(t, client, http.MethodGet, way, "", http.StatusOK) {
			return
		}
		if n%10 == 9 && !s.request(t, client, http.MethodPost, way, fmt.Sprintf("s-%d-%d", i, n), http.StatusCreated) {
			return
		}
	}
}

// request lists the objects, or creates one of that name.
func (s *sessions) request(t *testing.T, client *http.Client, method, way, name string, want int) bool {
	body := strings.NewReader(fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}}`, name))
	request, err := http.NewRequestWithContext(context.WithoutCancel(s.ctx), method, s.configMaps(way), body)
	if err != nil {
		t.Error(err)
		return false
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Errorf("%s by %s: %v", method, way, err)
		return false
	}
	defer func() { _ = response.Body.Close() }()
	s.requests.Add(1)
	if response.StatusCode != want {
		t.Errorf("%s by %s: got %s, want %d", method, way, response.Status, want)
		return false
	}
	return true
}

// TestKeysRotateUnderSessions replaces the sealing key and the signing key of the hub while people hold
// watches open through both replicas of the tunnel, and others make requests: nothing fails, no
// watch ends, and objects created afterwards reach all of them. There are 4 sessions of each kind,
// or 100 in the long form.
func TestKeysRotateUnderSessions(t *testing.T) {
	t.Parallel()
	r, n := theRig(t), 4
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		n = 100
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &sessions{rig: r, namespace: "rotation", ctx: ctx}
	stop := sync.OnceFunc(func() {
		cancel()
		s.running.Wait()
	})
	defer stop()
	if err := r.kubePost(ctx, "/api/v1/namespaces", `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rotation"}}`); err != nil {
		t.Fatal(err)
	}
	ways := names(false, true)
	if !s.request(t, r.people, http.MethodPost, ways[0], "first", http.StatusCreated) {
		t.FailNow()
	}
	for i := range n {
		way := ways[i%len(ways)]
		s.running.Go(func() { s.watch(t, way) })
		s.running.Go(func() { s.work(t, way, i) })
	}
	await.True(t, "all watches", func() bool { return s.synced.Load() == int64(n) })

	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: r.distributor, Tokens: identity.StaticToken(adminToken), Telemetry: telemetry.Noop()})
	if err != nil {
		t.Fatal(err)
	}
	keys := fleetv1connect.NewKeyServiceClient(client.HTTP, client.BaseURL, client.Options...)
	current := func() *fleetv1.GetKeysResponse {
		got, err := keys.GetKeys(ctx, &fleetv1.GetKeysRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	sealing, err := keys.RotateSealingKey(ctx, &fleetv1.RotateSealingKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	signing, err := keys.RotateSigningKey(ctx, &fleetv1.RotateSigningKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the new keys", func() bool {
		got := current()
		isSealing := len(got.GetSealingKeys()) == 1 && got.GetSealingKeys()[0].GetId() == sealing.GetId()
		newest := got.GetSigningKeys()[len(got.GetSigningKeys())-1]
		return isSealing && newest.GetCurrent() && newest.GetId() == signing.GetKey().GetId()
	})
	requests := s.requests.Load()
	await.True(t, "requests with the new keys", func() bool { return s.requests.Load() > requests+int64(20*n) })
	if !s.request(t, r.people, http.MethodPost, ways[0], "last", http.StatusCreated) {
		t.FailNow()
	}
	await.True(t, "all watches to show what was created last", func() bool { return s.last.Load() == int64(n) })
	stop()
	t.Logf("%d sessions: %d requests and %d events, none failed", n, s.requests.Load(), s.watched.Load())
}
