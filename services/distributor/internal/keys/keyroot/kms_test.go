// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// kmsParams returns the parameters for a key at the clouds of a test.
func kmsParams(t *testing.T, clouds *cloudtest.Clouds, key string) keyroot.KMSParams {
	t.Helper()
	identity, err := cloud.New(cloud.Params{
		Config: clouds.Environment(cloudtest.TokenFile(t)), Caller: "the distributor", Prefix: "distributor", GoogleRole: "a role",
	})
	if err != nil {
		t.Fatal(err)
	}
	return keyroot.KMSParams{Key: key, AWSURL: clouds.URL + "/aws/kms", GoogleURL: clouds.URL + "/google/kms/", Identity: identity}
}

func newKMS(t *testing.T, p keyroot.KMSParams) *keyroot.KMS {
	t.Helper()
	root, err := keyroot.NewKMS(p)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// services are the keys at each cloud, and how the steps of its calls are called.
func services(clouds *cloudtest.Clouds) map[string]struct{ key, other, signIn, call string } {
	return map[string]struct{ key, other, signIn, call string }{
		"AWS":         {cloudtest.AWSKey, cloudtest.OtherAWSKey, "/aws/sts/", "/aws/kms/"},
		"Google":      {cloudtest.GoogleKey, cloudtest.OtherGoogleKey, "/computeMetadata/", "/google/kms/"},
		"Azure":       {clouds.AzureKey("leat"), clouds.AzureKey("other"), "/oauth2/v2.0/token", "/keys/"},
		"managed HSM": {clouds.AzureKey("leat-aes"), clouds.AzureKey("other-aes"), "/oauth2/v2.0/token", "/keys/"},
	}
}

// at returns the parameters of a key, with AES where the key is one of AES.
func at(t *testing.T, clouds *cloudtest.Clouds, key string) keyroot.KMSParams {
	t.Helper()
	p := kmsParams(t, clouds, key)
	if strings.HasSuffix(key, "-aes") {
		p.AzureAlgorithm = "A256KW"
	}
	return p
}

func TestKMS(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for name, s := range services(clouds) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newKMS(t, at(t, clouds, s.key))
			conformance(t, root, newKMS(t, at(t, clouds, s.other)))

			// A hub of another name has the same key, and other roots.
			p := at(t, clouds, s.key)
			p.Hub = "prod"
			named := newKMS(t, p)
			conformance(t, named, root)
			if got, want := named.Name(), root.Name()+"#prod"; got != want {
				t.Errorf("got name %q, want %q", got, want)
			}
			for _, length := range []int{1, 16, 64} { // 16 is the key of a backup
				key := bytes.Repeat([]byte{9}, length)
				unwrapped(t, root, wrap(t, root, key), key)
			}
		})
	}
}

func TestKMSNames(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for key, want := range map[string]string{
		cloudtest.AWSKey:                                 "aws/" + cloudtest.AWSKey,
		cloudtest.GoogleKey:                              "google/" + cloudtest.GoogleKey,
		"https://team.vault.azure.net/keys/leat":         "azure/team.vault.azure.net/leat",
		"https://team.managedhsm.azure.net/keys/leat":    "azure/team.managedhsm.azure.net/leat",
		"https://team.vault.usgovcloudapi.net/keys/leat": "azure/team.vault.usgovcloudapi.net/leat",
		"arn:aws-cn:kms:cn-north-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab": "aws/arn:aws-cn:kms:cn-north-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab",
	} {
		if got := newKMS(t, kmsParams(t, clouds, key)).Name(); got != want {
			t.Errorf("got name %q, want %q", got, want)
		}
	}
	if asked := clouds.Take(); len(asked) != 0 {
		t.Errorf("got the requests %v, want none before a key is wrapped", asked)
	}
}

// TestKMSKeysOfTheDocumentation makes roots of the keys that the page shows.
func TestKMSKeysOfTheDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../../docs/operations/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	clouds := cloudtest.Start(t)
	found := regexp.MustCompile(`(?m)^LEAT_DISTRIBUTOR_SEALING_KMS_KEYS=(\S+)$`).FindAllSubmatch(page, -1)
	if len(found) != 3 {
		t.Errorf("got %d examples, want one for each cloud", len(found))
	}
	for _, example := range found {
		newKMS(t, kmsParams(t, clouds, string(example[1])))
	}
}

// TestKMSSignsInEveryWay wraps with each identity that a pod can have.
func TestKMSSignsInEveryWay(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	token := cloudtest.TokenFile(t)
	for name, test := range map[string]struct {
		key    string
		change func(*cloud.Config, *keyroot.KMSParams)
		want   string
	}{
		"a role by the pod's token": {cloudtest.AWSKey, func(*cloud.Config, *keyroot.KMSParams) {}, "POST /aws/sts/ POST /aws/kms/"},
		"EKS Pod Identity": {cloudtest.AWSKey, func(c *cloud.Config, _ *keyroot.KMSParams) {
			c.AWSRole, c.AWSContainerURL, c.AWSContainerTokenFile = "", clouds.URL+"/aws/pod", token
		}, "GET /aws/pod POST /aws/kms/"},
		"federation": {cloudtest.GoogleKey, func(_ *cloud.Config, p *keyroot.KMSParams) {
			p.GoogleProvider, p.GoogleAccount = cloudtest.Provider, cloudtest.Account
		}, "POST /google/sts/v1/token POST /google/iam/v1/projects/-/serviceAccounts/" + cloudtest.Account + ":generateAccessToken " +
			"POST /google/kms/v1/" + cloudtest.GoogleKey + ":encrypt"},
	} {
		p, environment := kmsParams(t, clouds, test.key), clouds.Environment(token)
		test.change(&environment, &p)
		var err error
		if p.Identity, err = cloud.New(cloud.Params{Config: environment, Caller: "the distributor", Prefix: "distributor"}); err != nil {
			t.Fatal(err)
		}
		wrap(t, newKMS(t, p), bytes.Repeat([]byte{7}, 32))
		if got := strings.Join(clouds.Take(), " "); got != test.want {
			t.Errorf("%s: got the requests %s, want %s", name, got, test.want)
		}
	}
}

// TestKMSIsAway has each service fail in each way that passes: the call is made again later, and
// succeeds. That holds for the sign-in, too.
func TestKMSIsAway(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	status := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	faults := map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"throttled":            {status(http.StatusTooManyRequests, ""), "slow down"},
		"throttled by AWS":     {status(http.StatusBadRequest, `{"__type":"com.amazonaws.kms#ThrottlingException"}`), "slow down"},
		"denied by AWS":        {status(http.StatusBadRequest, `{"__type":"AccessDeniedException"}`), "give the distributor's identity the right"},
		"denied by Google":     {status(http.StatusForbidden, `{"error":{"code":403,"status":"PERMISSION_DENIED"}}`), "PERMISSION_DENIED; give the distributor's identity"},
		"denied by Azure":      {status(http.StatusForbidden, `{"error":{"code":"Forbidden","innererror":{"code":"ForbiddenByRbac"}}}`), "ForbiddenByRbac; give"},
		"token not accepted":   {status(http.StatusUnauthorized, ""), "401; give"},
		"deleted, not yet":     {status(http.StatusBadRequest, `{"__type":"KMSInvalidStateException"}`), "enable the key"},
		"a problem of its own": {status(http.StatusServiceUnavailable, ""), "503"},
		"no answer": {func(w http.ResponseWriter, _ *http.Request) {
			if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = connection.Close()
			}
		}, "does not answer"},
	}
	for cloudName, s := range services(clouds) {
		root := newKMS(t, at(t, clouds, s.key))
		key := bytes.Repeat([]byte{7}, 32)
		wrapped := wrap(t, root, key)
		for name, fault := range faults {
			clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, s.call) {
					return false
				}
				fault.answer(w, r)
				return true
			})
			if _, err := root.Wrap(t.Context(), key, "a"); !errors.Is(err, keyroot.ErrUnavailable) || !strings.Contains(err.Error(), fault.says) {
				t.Errorf("%s, %s: wrap: got %v, want %v and %q", cloudName, name, err, keyroot.ErrUnavailable, fault.says)
			}
			if got, err := root.Unwrap(t.Context(), wrapped, "a"); !errors.Is(err, keyroot.ErrUnavailable) || got != nil {
				t.Errorf("%s, %s: unwrap: got %v, want %v", cloudName, name, err, keyroot.ErrUnavailable)
			}
		}
		for _, code := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway} {
			clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, s.signIn) {
					w.WriteHeader(code)
					return true
				}
				t.Errorf("%s: got a request to %s without a sign-in", cloudName, r.URL.Path)
				return false
			})
			if _, err := root.Unwrap(t.Context(), wrapped, "a"); !errors.Is(err, keyroot.ErrUnavailable) || errors.Is(err, keyroot.ErrRefused) {
				t.Errorf("%s: sign-in that fails with %d: got %v, want %v", cloudName, code, err, keyroot.ErrUnavailable)
			}
		}
		clouds.Fail(nil)
		clouds.DisableKeys(true)
		if _, err := root.Unwrap(t.Context(), wrapped, "a"); !errors.Is(err, keyroot.ErrUnavailable) || !strings.HasSuffix(err.Error(), "enable the key") {
			t.Errorf("%s: disabled key: got %v, want %v and what to do", cloudName, err, keyroot.ErrUnavailable)
		}
		clouds.DisableKeys(false)
		unwrapped(t, root, wrapped, key)
	}
}

// TestKMSWithoutTheKey names a key that does not exist: waiting would not help.
func TestKMSWithoutTheKey(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for name, s := range services(clouds) {
		root := newKMS(t, at(t, clouds, s.key))
		wrapped := wrap(t, root, []byte("key"))
		clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, s.call) {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		})
		_, err := root.Unwrap(t.Context(), wrapped, "a")
		if err == nil || errors.Is(err, keyroot.ErrUnavailable) || !strings.Contains(err.Error(), "does the key exist") {
			t.Errorf("%s: got %v, want an error that stays", name, err)
		}
		clouds.Fail(nil)
	}
}

// TestKMSAzureRotatesItsKey replaces the version: what the former one wrapped is opened by it.
func TestKMSAzureRotatesItsKey(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	root := newKMS(t, at(t, clouds, clouds.AzureKey("leat-aes")))
	key := bytes.Repeat([]byte{7}, 32)
	old := wrap(t, root, key)
	clouds.RotateAzure()
	renewed := wrap(t, root, key)
	version := func(wrapped []byte) string { return strings.Split(string(wrapped), ":")[2] }
	if version(old) == version(renewed) {
		t.Errorf("got version %s twice, want another", version(old))
	}
	unwrapped(t, root, old, key)
	unwrapped(t, root, renewed, key)
	swapped := bytes.Replace(old, []byte(version(old)), []byte(version(renewed)), 1)
	if got, err := root.Unwrap(t.Context(), swapped, "a"); !errors.Is(err, keyroot.ErrRefused) || got != nil {
		t.Errorf("by another version: got %v, want %v", err, keyroot.ErrRefused)
	}
}

// TestSecKMSAnswersAreBounded has hostile or broken services answer. No token and no key goes
// elsewhere, no answer fills the memory or takes long, and no error contains a token or a key.
func TestSecKMSAnswersAreBounded(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	var elsewhere atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer evil.Close()
	key := []byte("the-key-that-nobody-may-see-here")
	encoded := base64.StdEncoding.EncodeToString(key)
	echo := fmt.Sprintf(`{"__type":%q,"message":%q,"error":{"status":%q,"message":%q,"innererror":{"code":%q}}}`, encoded, key, key, encoded, encoded)
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Plaintext": "`)
			for range 1 << 13 {
				if _, err := w.Write(bytes.Repeat([]byte("A"), 1<<10)); err != nil {
					return
				}
			}
			t.Error("an endless answer was read to its end")
		},
		"not JSON":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"empty object": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") },
		"nothing":      func(http.ResponseWriter, *http.Request) {},
		"key echoed as a refusal": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, echo)
		},
		"key echoed as a failure": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, echo)
		},
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		for cloudName, s := range services(clouds) {
			p := at(t, clouds, s.key)
			if name == "hangs" {
				p.Timeout = 200 * time.Millisecond
			}
			clouds.Fail(nil)
			wrapped := wrap(t, newKMS(t, at(t, clouds, s.key)), key)
			root := newKMS(t, p)
			clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, s.call) {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that a client is gone
				answer(w, r)
				return true
			})
			for verb, call := range map[string]func() ([]byte, error){
				"wrap":   func() ([]byte, error) { return root.Wrap(t.Context(), key, "a") },
				"unwrap": func() ([]byte, error) { return root.Unwrap(t.Context(), wrapped, "a") },
			} {
				got, err := call()
				if err == nil || got != nil {
					t.Errorf("%s, %s: %s: got %q, want an error", cloudName, name, verb, got)
					continue
				}
				if text := err.Error(); cloudtest.IsSecret(text) || strings.Contains(text, string(key)) || strings.Contains(text, encoded) || len(text) > 1000 {
					t.Errorf("%s, %s: %s: the error %q contains a secret, or is long", cloudName, name, verb, text)
				}
			}
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("got %d requests at another server, want no redirect followed", n)
	}
}

// altered has the answers of the key management services changed on their way.
func altered(clouds *cloudtest.Clouds, change func(fields map[string]any)) {
	clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/kms/") && !strings.HasPrefix(r.URL.Path, "/keys/") {
			return false
		}
		recorded := httptest.NewRecorder()
		clouds.ServeRight(recorded, r)
		fields := map[string]any{}
		_ = json.Unmarshal(recorded.Body.Bytes(), &fields)
		change(fields)
		_ = json.NewEncoder(w).Encode(fields)
		return true
	})
}

// TestSecKMSAnswersAreChecked changes single fields of answers: checksums, the name of the key, and
// what was wrapped. Nothing of such an answer is used.
func TestSecKMSAnswersAreChecked(t *testing.T) {
	t.Parallel()
	flip := func(field string) func(map[string]any) {
		return func(fields map[string]any) {
			if text, ok := fields[field].(string); ok {
				last := map[bool]string{true: "B", false: "A"}[text[0] == 'A']
				fields[field] = last + text[1:]
			}
		}
	}
	set := func(field string, value any) func(map[string]any) {
		return func(fields map[string]any) {
			if _, ok := fields[field]; ok {
				fields[field] = value
			}
		}
	}
	drop := func(field string) func(map[string]any) { return func(fields map[string]any) { delete(fields, field) } }
	for name, test := range map[string]struct {
		key    func(*cloudtest.Clouds) string
		change func(map[string]any)
		wraps  bool // wrapping fails; unwrapping does otherwise
	}{
		"AWS: another key wrapped":              {awsKey, set("KeyId", cloudtest.OtherAWSKey), true},
		"AWS: another key unwrapped":            {awsKey, set("KeyId", cloudtest.OtherAWSKey), false},
		"AWS: no name":                          {awsKey, drop("KeyId"), false},
		"AWS: no key":                           {awsKey, set("Plaintext", ""), false},
		"Google: damaged wrapped key":           {googleKey, flip("ciphertext"), true},
		"Google: damaged key":                   {googleKey, flip("plaintext"), false},
		"Google: wrong checksum":                {googleKey, set("plaintextCrc32c", "1"), false},
		"Google: no checksum":                   {googleKey, drop("plaintextCrc32c"), false},
		"Google: no checksum of a wrapped key":  {googleKey, drop("ciphertextCrc32c"), true},
		"Google: request damaged":               {googleKey, set("verifiedPlaintextCrc32c", false), true},
		"Google: binding damaged":               {googleKey, drop("verifiedAdditionalAuthenticatedDataCrc32c"), true},
		"Azure: another key wrapped":            {azureKey, set("kid", "https://team.vault.azure.net/keys/evil/"+strings.Repeat("a", 32)), true},
		"Azure: a version that is a path":       {azureKey, set("kid", "https://team.vault.azure.net/keys/leat-aes/../../x"), true},
		"Azure: nothing wrapped":                {azureKey, set("value", ""), true},
		"Azure: damaged key":                    {azureKey, set("value", "AAAA"), false},
		"Azure: a key that nothing is bound to": {azureKey, set("value", strings.Repeat("A", 128)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clouds := cloudtest.Start(t)
			root := newKMS(t, at(t, clouds, test.key(clouds)))
			key := bytes.Repeat([]byte{7}, 32)
			wrapped := wrap(t, root, key)
			altered(clouds, func(map[string]any) {})
			unwrapped(t, root, wrap(t, root, key), key) // unchanged answers are used
			altered(clouds, test.change)
			var got []byte
			var err error
			if test.wraps {
				got, err = root.Wrap(t.Context(), key, "a")
			} else {
				got, err = root.Unwrap(t.Context(), wrapped, "a")
			}
			if err == nil || got != nil {
				t.Errorf("got %q, want an error", got)
			}
		})
	}
}

func awsKey(*cloudtest.Clouds) string          { return cloudtest.AWSKey }
func googleKey(*cloudtest.Clouds) string       { return cloudtest.GoogleKey }
func azureKey(clouds *cloudtest.Clouds) string { return clouds.AzureKey("leat-aes") }

// TestSecKMSKeysStayInTheirCloud names keys at hosts and paths that only look like a cloud's own. No
// root is made of them, so that no token goes there.
func TestSecKMSKeysStayInTheirCloud(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for _, key := range []string{
		"", "leat", "alias/leat", "1234abcd-12ab-34cd-56ef-1234567890ab",
		"arn:aws:kms:eu-central-1:123456789012:alias/leat", "arn:aws:kms:evil.example/:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
		"arn:aws:s3:::bucket", cloudtest.AWSKey + "/x", cloudtest.AWSKey + "\n",
		cloudtest.GoogleKey + "/cryptoKeyVersions/1", cloudtest.GoogleKey + ":destroy", strings.Replace(cloudtest.GoogleKey, "hub", "..", 1), "projects/p",
		"http://team.vault.azure.net/keys/leat", "https://evil.example/keys/leat", "https://team.vault.azure.net.evil.example/keys/leat",
		"https://evilvault.azure.net/keys/leat", "https://vault.azure.net/keys/leat", "https://a.b.vault.azure.net/keys/leat",
		"https://team.vault.azure.net:8443/keys/leat", "https://u:p@team.vault.azure.net/keys/leat", "https://team.vault.azure.net/keys/leat?x=y",
		"https://team.vault.azure.net/keys/leat/0123456789abcdef0123456789abcdef", "https://team.vault.azure.net/secrets/leat",
		"https://team.vault.azure.net/keys/..", "https://team.vault.azure.net/keys/%2e%2e", "ftp://team.vault.azure.net/keys/leat",
	} {
		if root, err := keyroot.NewKMS(kmsParams(t, clouds, key)); err == nil {
			t.Errorf("%q: got the root %s, want it refused", key, root.Name())
		}
	}
	for name, change := range map[string]func(*keyroot.KMSParams){
		"AWS over plain HTTP":    func(p *keyroot.KMSParams) { p.AWSURL = "http://kms.example" },
		"Google over plain HTTP": func(p *keyroot.KMSParams) { p.Key, p.GoogleURL = cloudtest.GoogleKey, "http://kms.example" },
		"an old algorithm":       func(p *keyroot.KMSParams) { p.Key, p.AzureAlgorithm = clouds.AzureKey("leat"), "RSA1_5" },
		"a hub with a line end":  func(p *keyroot.KMSParams) { p.Hub = "a\nb" },
		"a long hub":             func(p *keyroot.KMSParams) { p.Hub = strings.Repeat("a", 64) },
	} {
		p := kmsParams(t, clouds, cloudtest.AWSKey)
		change(&p)
		if _, err := keyroot.NewKMS(p); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	root := newKMS(t, kmsParams(t, clouds, clouds.AzureKey("leat")))
	version := strings.Repeat("a", 32)
	for _, wrapped := range []string{
		"azure:v1:leat/../../x:RSA-OAEP-256:AAAA", "azure:v1:leat/" + version + ":RSA1_5:AAAA", "azure:v1:leat/" + version + "?x:RSA-OAEP-256:AAAA",
		"azure:v1:evil/" + version + ":RSA-OAEP-256:AAAA", "azure:v1:leat/" + version + ":RSA-OAEP-256:" + strings.Repeat("A", 20<<10), "vault:v1:AAAA",
	} {
		if _, err := root.Unwrap(t.Context(), []byte(wrapped), "a"); !errors.Is(err, keyroot.ErrRefused) {
			t.Errorf("%.60q: got %v, want %v", wrapped, err, keyroot.ErrRefused)
		}
	}
	if asked := clouds.Take(); len(asked) != 0 {
		t.Errorf("got the requests %v, want none", asked)
	}
}

// TestKMSEndsWithItsCaller gives up while a service hangs.
func TestKMSEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	root := newKMS(t, kmsParams(t, clouds, cloudtest.AWSKey))
	ctx, cancel := context.WithCancel(t.Context())
	clouds.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
		return true
	})
	if _, err := root.Wrap(ctx, []byte("key"), "a"); !errors.Is(err, keyroot.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's end", err)
	}
}
