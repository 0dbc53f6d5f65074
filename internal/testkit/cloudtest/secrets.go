// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Project is the one of Google Cloud that has secrets.
const Project = "project"

// secrets holds the content of all clouds' secret managers: each secret is the same at all of them.
// Its zero value is in use.
type secrets struct {
	mu       sync.Mutex
	values   map[string]string
	versions map[string]int
	denied   map[string]bool
	throttle time.Duration
}

// PutSecret gives a secret another value, at all clouds.
func (c *Clouds) PutSecret(name, value string) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	if c.secrets.values == nil {
		c.secrets.values, c.secrets.versions, c.secrets.denied = map[string]string{}, map[string]int{}, map[string]bool{}
	}
	c.secrets.values[name] = value
	c.secrets.versions[name]++
}

// RemoveSecret removes a secret.
func (c *Clouds) RemoveSecret(name string) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	delete(c.secrets.values, name)
}

// DenySecret has a secret refused to everybody.
func (c *Clouds) DenySecret(name string) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	c.secrets.denied[name] = true
}

// ThrottleSecrets has the next read refused for a while.
func (c *Clouds) ThrottleSecrets(after time.Duration) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	c.secrets.throttle = after
}

// outcome is how a cloud answers a read.
type secretOutcome int

const (
	secretFound secretOutcome = iota
	secretAbsent
	secretDenied
	secretThrottled
)

// take decides about one read, and sets the header that asks to wait.
func (s *secrets) take(w http.ResponseWriter, name string) (value, version string, what secretOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[name]
	switch {
	case s.throttle > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(s.throttle/time.Second)))
		s.throttle = 0
		return "", "", secretThrottled
	case s.denied[name]:
		return "", "", secretDenied
	case !ok:
		return "", "", secretAbsent
	}
	return value, strconv.Itoa(s.versions[name]), secretFound
}

func (c *Clouds) serveAWSSecrets(w http.ResponseWriter, r *http.Request) {
	content, body, err := read(r, "SecretId")
	var name string
	if err == nil {
		err = json.Unmarshal(content["SecretId"], &name)
	}
	if err == nil {
		err = c.keys.verify(r, body, Region, "secretsmanager", c.now())
	}
	if err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		c.refuse(w, r, "%v: target %q", err, r.Header.Get("X-Amz-Target"))
		return
	}
	value, version, what := c.secrets.take(w, name)
	if what == secretFound {
		answer(w, map[string]any{
			"ARN": "arn:aws:secretsmanager:" + Region + ":123456789012:secret:" + name + "-a1b2c3", "Name": name, "SecretString": value,
			"VersionId": "00000000-0000-4000-8000-" + fmt.Sprintf("%012s", version), "VersionStages": []string{"AWSCURRENT"},
		})
		return
	}
	problem := map[secretOutcome]string{
		secretAbsent: "ResourceNotFoundException", secretDenied: "AccessDeniedException", secretThrottled: "ThrottlingException",
	}[what]
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": problem, "Message": "Secrets Manager refuses."})
}

func (c *Clouds) serveGoogleSecrets(w http.ResponseWriter, r *http.Request) {
	bearer := r.Header.Get("Authorization")
	if bearer != "Bearer "+GoogleToken && bearer != "Bearer "+AccountToken || r.PathValue("project") != Project || r.PathValue("action") != "latest:access" || r.URL.RawQuery != "" {
		c.refuse(w, r, "authorization %q, query %q", bearer, r.URL.RawQuery)
		return
	}
	name := r.PathValue("secret")
	value, version, what := c.secrets.take(w, name)
	if what == secretFound {
		answer(w, map[string]any{
			"name":    "projects/12345/secrets/" + name + "/versions/" + version,
			"payload": map[string]any{"data": []byte(value), "dataCrc32c": crc32c([]byte(value))},
		})
		return
	}
	status, code := http.StatusNotFound, "NOT_FOUND"
	switch what {
	case secretDenied:
		status, code = http.StatusForbidden, "PERMISSION_DENIED"
	case secretThrottled:
		status, code = http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"
	case secretFound, secretAbsent:
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "status": code, "message": "Secret Manager refuses."}})
}

func (c *Clouds) serveAzureSecrets(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != "Bearer "+vaultToken || r.URL.RawQuery != "api-version=7.4" {
		c.refuse(w, r, "authorization %q, query %q", got, r.URL.RawQuery)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/secrets/")
	value, version, what := c.secrets.take(w, name)
	if what == secretFound {
		sum := sha256.Sum256([]byte(name + "/" + version))
		answer(w, map[string]any{
			"value": value, "id": c.URL + "/secrets/" + name + "/" + hex.EncodeToString(sum[:16]), "attributes": map[string]any{"enabled": true},
		})
		return
	}
	status, code := http.StatusNotFound, "SecretNotFound"
	switch what {
	case secretDenied:
		status, code = http.StatusForbidden, "Forbidden"
	case secretThrottled:
		status, code = http.StatusTooManyRequests, "Throttled"
	case secretFound, secretAbsent:
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": "Key Vault refuses."}})
}
