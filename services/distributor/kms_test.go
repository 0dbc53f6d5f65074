// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
)

// kmsConfig is the settings of a hub whose root is a key at the clouds of a test.
func kmsConfig(t *testing.T, clouds *cloudtest.Clouds, keys ...string) distributor.KMSConfig {
	t.Helper()
	return distributor.KMSConfig{
		Keys: keys, Hub: "prod", AWSURL: clouds.URL + "/aws/kms", GoogleURL: clouds.URL + "/google/kms", Identity: clouds.Environment(cloudtest.TokenFile(t)),
	}
}

// TestHubWithAKMS seals by a key of each cloud. While the key cannot be used the hub continues,
// with everything except a rotation; a hub that starts then waits for it, and reports it: as with
// Vault.
func TestHubWithAKMS(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*cloudtest.Clouds) (name, root string){
		"AWS": func(*cloudtest.Clouds) (string, string) { return cloudtest.AWSKey, "aws/" + cloudtest.AWSKey + "#prod" },
		"Google": func(*cloudtest.Clouds) (string, string) {
			return cloudtest.GoogleKey, "google/" + cloudtest.GoogleKey + "#prod"
		},
		"Azure": func(c *cloudtest.Clouds) (string, string) {
			return c.AzureKey("leat"), "azure/" + c.Listener.Addr().String() + "/leat#prod"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clouds := cloudtest.Start(t)
			key, want := key(clouds)
			logged := &said{}
			h := startHub(t, func(c *distributor.Config) {
				c.Keys.KMS = kmsConfig(t, clouds, key)
				c.Telemetry.LogOutput = logged
			})
			secretly := func(name string) {
				t.Helper()
				document := repositoryDocument(name)
				document.GetRepository().Spec.WebhookSecret = proto.String("hunter2 and his webhooks")
				h.apply(t, document)
			}
			await.True(t, "the hub to start", func() bool { return keysOf(t, h) != nil })
			secretly("one")
			if got := keysOf(t, h).GetSealingKeys()[0].GetRoot(); got != want {
				t.Errorf("got root %q, want %q", got, want)
			}
			asked := clouds.Take()
			secretly("two")
			if more := clouds.Take(); len(asked) == 0 || len(more) != 0 {
				t.Errorf("got the requests %v and then %v, want them at the start alone", asked, more)
			}

			clouds.DisableKeys(true)
			secretly("three")
			_, err := h.keyService(t).RotateSealingKey(t.Context(), &fleetv1.RotateSealingKeyRequest{})
			if connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("rotate while the key is disabled: got %v, want unavailable", err)
			}
			h.stop(t)
			h.start(t)
			await.True(t, "the hub to say that it waits for the key", func() bool {
				return logged.has("root of the sealing keys does not answer") && logged.has("enable the key")
			})
			clouds.DisableKeys(false)
			if _, err := h.keyService(t).RotateSealingKey(t.Context(), &fleetv1.RotateSealingKeyRequest{ExpectedId: keysOf(t, h).GetSealingKeys()[0].GetId()}); err != nil {
				t.Errorf("rotate: %v", err)
			}
		})
	}
}

// TestRootMustOpenWhatItWraps has a hub change over to a key with which it may encrypt, and not
// decrypt. The hub keeps its former root, instead of a database that cannot be opened.
func TestRootMustOpenWhatItWraps(t *testing.T) {
	t.Parallel()
	clouds, logged := cloudtest.Start(t), &said{}
	h := startHub(t, func(c *distributor.Config) { c.Telemetry.LogOutput = logged })
	before := keysOf(t, h)
	h.stop(t)
	clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Amz-Target") != "TrentService.Decrypt" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"AccessDeniedException"}`))
		return true
	})
	h.cfg.Keys.KMS = kmsConfig(t, clouds, cloudtest.AWSKey)
	h.start(t)
	await.True(t, "the hub to say what is missing", func() bool { return logged.has("give the distributor's identity the right to encrypt and decrypt") })
	h.cancel()
	if err := <-h.done; err == nil {
		t.Error("the hub had started")
	}
	h.done = nil
	h.cfg.Keys.KMS = distributor.KMSConfig{}
	h.start(t)
	if got, want := keysOf(t, h).GetSealingKeys()[0].GetRoot(), before.GetSealingKeys()[0].GetRoot(); got != want {
		t.Errorf("got root %q, want %q", got, want)
	}
}

// rolling is two replicas of which one at a time is restarted. Calls go to the other one, as a load
// balancer sends them.
type rolling struct {
	*fleetOfKeys
	up    [2]sync.RWMutex
	calls atomic.Int64
}

// restart starts each replica again with changed settings.
func (r *rolling) restart(t *testing.T, change func(*distributor.KeyConfig), between func()) {
	t.Helper()
	for i, h := range r.replicas {
		r.up[i].Lock()
		h.stop(t)
		change(&h.cfg.Keys)
		h.start(t)
		keysOf(t, h)
		r.up[i].Unlock()
		if i == 0 && between != nil {
			between()
		}
	}
	calls := r.calls.Load()
	await.True(t, "calls at both replicas", func() bool { return r.calls.Load() > calls+20 || t.Failed() })
}

// load reads and writes secrets until ctx is done.
func (r *rolling) load(t *testing.T, ctx context.Context, i int) {
	service, cluster := fmt.Sprintf("app-%d", i), fmt.Sprintf("cluster-%d", i)
	pause := time.NewTicker(editPause)
	defer pause.Stop()
	for n := i; ctx.Err() == nil; n++ {
		<-pause.C
		at := n % 2
		if !r.up[at].TryRLock() {
			continue // it is being restarted
		}
		h := r.replicas[at]
		document := configDocument(service, cluster, map[string]string{"N": fmt.Sprint(n)}, map[string]string{"PASSWORD": hunter2})
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		if err != nil {
			t.Errorf("edit %d at replica %d: %v", n, at, err)
		}
		config, err := h.agents(t, r.agents[i].token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: service})
		if err != nil || string(config.GetSecrets()["PASSWORD"]) != hunter2 {
			t.Errorf("configuration %d at replica %d: %v", n, at, err)
		}
		r.up[at].RUnlock()
		r.calls.Add(2)
		if t.Failed() {
			return
		}
	}
}

// TestRootChangesToAKMSAndBackUnderLoad changes the root of two replicas from a file to a key of a
// cloud, from there to a key of another cloud, and back, while secrets are read and written. The
// sealing key is rotated in between, while the replicas have different roots. No call fails.
func TestRootChangesToAKMSAndBackUnderLoad(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	const file = "the root that this test has in a file\n"
	r := &rolling{fleetOfKeys: newFleetOfKeys(t, func(c *distributor.Config) { c.Keys.Sealing = secret.Text(file) })}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range 3 {
		running.Go(func() { r.load(t, ctx, i) })
	}
	rotate := func() {
		if _, err := r.replicas[0].keyService(t).RotateSealingKey(t.Context(), &fleetv1.RotateSealingKeyRequest{}); err != nil {
			t.Errorf("rotate: %v", err)
		}
	}
	wantRoot := func(prefix string) {
		t.Helper()
		await.True(t, "one key, wrapped by "+prefix, func() bool {
			keys := r.keys(t).GetSealingKeys()
			return len(keys) == 1 && strings.HasPrefix(keys[0].GetRoot(), prefix)
		})
	}
	wantRoot("local/")
	settings := kmsConfig(t, clouds, cloudtest.AWSKey)
	set := func(former bool, keys ...string) func(*distributor.KeyConfig) {
		return func(c *distributor.KeyConfig) { c.KMS, c.KMS.Keys, c.KMS.Former = settings, keys, former }
	}
	r.restart(t, set(true, cloudtest.AWSKey), nil)
	wantRoot("local/")
	r.restart(t, set(false, cloudtest.AWSKey), rotate)
	wantRoot("aws/")
	r.restart(t, set(false, cloudtest.AWSKey, cloudtest.GoogleKey), nil)
	wantRoot("aws/")
	r.restart(t, set(false, cloudtest.GoogleKey, cloudtest.AWSKey), rotate)
	wantRoot("google/")
	r.restart(t, set(true, cloudtest.GoogleKey), rotate)
	wantRoot("local/")
	clouds.DisableKeys(true) // nothing depends on them any more
	r.restart(t, func(c *distributor.KeyConfig) { c.KMS = distributor.KMSConfig{} }, nil)
	wantRoot("local/")
	t.Logf("%d calls, none failed", r.calls.Load())
}

// TestKMSSettings refuses what cannot be meant before anything is opened.
func TestKMSSettings(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for want, change := range map[string]func(*distributor.KMSConfig){
		"want a key's ARN":                     func(c *distributor.KMSConfig) { c.Keys = []string{cloudtest.AWSKey, "leat"} },
		"an alias can be pointed":              func(c *distributor.KMSConfig) { c.Keys = []string{"arn:aws:kms:eu-central-1:123456789012:alias/leat"} },
		"eks.amazonaws.com/role-arn":           func(c *distributor.KMSConfig) { c.Identity.AWSTokenFile = "" },
		"--distributor-sealing-kms-google-url": func(c *distributor.KMSConfig) { c.GoogleURL = "http://kms.example" },
		"--distributor-gcp-sts-url":            func(c *distributor.KMSConfig) { c.Identity.GCPSTSURL = "http://sts.example" },
		"got hub":                              func(c *distributor.KMSConfig) { c.Hub = "a b" },
		"got algorithm": func(c *distributor.KMSConfig) {
			c.Keys, c.AzureAlgorithm = []string{"https://team.vault.azure.net/keys/leat"}, "RSA1_5"
		},
	} {
		config := kmsConfig(t, clouds, cloudtest.AWSKey)
		change(&config)
		cfg := distributor.Config{Service: hubkeys.Config(identity.ServiceDistributor), Keys: distributor.KeyConfig{KMS: config}}
		if err := distributor.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
