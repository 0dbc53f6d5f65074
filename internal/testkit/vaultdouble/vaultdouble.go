// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package vaultdouble is a double of a Vault's key-value engine, version 2 at secret and version 1
// at kv, for tests. It passes the suite that the real one passes, and can be told to misbehave.
package vaultdouble

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the double. It is safe for concurrent use.
type Server struct {
	URL string

	mu       sync.Mutex
	entries  map[string]entry // by path below /v1/
	denied   map[string]bool
	tokens   map[string]bool
	throttle time.Duration
	sealed   bool
	hanging  chan struct{}
	custom   http.HandlerFunc
	reads    map[string]int
	logins   int
	renewals int
	lifetime int
}

type entry struct {
	fields  map[string]string
	version int
}

// The credentials that the double's sign-in methods accept.
const (
	// RoleID and SecretID are the credentials of AppRole.
	RoleID   = "role-of-the-double"
	SecretID = "secret-id-of-the-double"
	// Role and Proof are the credentials of the Kubernetes and the JWT method.
	Role  = "leat"
	Proof = "proof-of-the-pod"
)

// NewServer returns a double that listens nowhere.
func NewServer() *Server {
	return &Server{entries: map[string]entry{}, denied: map[string]bool{}, tokens: map[string]bool{}, reads: map[string]int{}, lifetime: 3600}
}

// Start runs a double, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := NewServer()
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.mu.Lock()
		if s.hanging != nil {
			close(s.hanging)
			s.hanging = nil
		}
		s.mu.Unlock()
		server.Close()
	})
	s.URL = server.URL
	return s
}

// Token returns a token that is valid.
func (s *Server) Token(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[text] = true
	return text
}

// Put replaces an entry of an engine, such as secret or kv.
func (s *Server) Put(mount, path string, fields map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := mount + "/" + path
	s.entries[at] = entry{fields: fields, version: s.entries[at].version + 1}
}

// Remove removes an entry.
func (s *Server) Remove(mount, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, mount+"/"+path)
}

// Deny refuses an entry to everybody, or allows it again.
func (s *Server) Deny(mount, path string, isDenied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[mount+"/"+path] = isDenied
}

// Throttle has the next read wait.
func (s *Server) Throttle(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.throttle = after
}

// Seal has every call fail, or ends that.
func (s *Server) Seal(isSealed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = isSealed
}

// Hang has no call answered until the test ends.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hanging = make(chan struct{})
}

// RevokeAll ends all tokens.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Answer has calls for entries answered by a function; nil ends that.
func (s *Server) Answer(with http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.custom = with
}

// Reads returns how often an entry was asked for.
func (s *Server) Reads(mount, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[mount+"/"+path]
}

// Logins returns the number of sign-ins.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Renewals returns how often a token was renewed.
func (s *Server) Renewals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewals
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hanging, sealed, custom := s.hanging, s.sealed, s.custom
	s.mu.Unlock()
	if hanging != nil {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
		return
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v1/")
	switch {
	case !ok || r.Header.Get("X-Vault-Request") != "true" && r.Method != http.MethodPost: // people write without it
		w.WriteHeader(http.StatusBadRequest)
	case sealed:
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasSuffix(path, "/login") && r.Method == http.MethodPost:
		s.login(w, r, path)
	case !s.isValid(r.Header.Get("X-Vault-Token")):
		w.WriteHeader(http.StatusForbidden)
	case path == "auth/token/lookup-self" && r.Method == http.MethodGet:
		s.mu.Lock()
		lifetime := s.lifetime
		s.mu.Unlock()
		write(w, map[string]any{"data": map[string]any{"policies": []string{"default"}, "ttl": lifetime, "renewable": lifetime > 0}})
	case path == "auth/token/renew-self" && r.Method == http.MethodPost:
		s.mu.Lock()
		s.renewals++
		s.mu.Unlock()
		s.grant(w, r.Header.Get("X-Vault-Token"))
	case strings.HasPrefix(path, "secret/data/") && r.Method == http.MethodPost:
		s.write(w, r, strings.TrimPrefix(path, "secret/data/"))
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case custom != nil:
		custom(w, r)
	default:
		s.read(w, path)
	}
}

func (s *Server) isValid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[token]
}

func (s *Server) login(w http.ResponseWriter, r *http.Request, path string) {
	var body map[string]string
	content, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil || json.Unmarshal(content, &body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	isRole := path == "auth/approle/login" && body["role_id"] == RoleID && body["secret_id"] == SecretID
	isPod := (path == "auth/kubernetes/login" || path == "auth/jwt/login") && body["role"] == Role && body["jwt"] == Proof
	if !isRole && !isPod {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.logins++
	token := "hvs.double-" + strconv.Itoa(s.logins)
	s.tokens[token] = true
	s.mu.Unlock()
	s.grant(w, token)
}

func (s *Server) grant(w http.ResponseWriter, token string) {
	s.mu.Lock()
	lifetime := s.lifetime
	s.mu.Unlock()
	write(w, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": lifetime, "renewable": true}})
}

func (s *Server) read(w http.ResponseWriter, path string) {
	mount, rest, _ := strings.Cut(path, "/")
	at := mount + "/" + strings.TrimPrefix(rest, "data/")
	isV2 := mount == "secret" && strings.HasPrefix(rest, "data/")
	s.mu.Lock()
	s.reads[at]++
	e, ok := s.entries[at]
	denied, throttle := s.denied[at], s.throttle
	s.throttle = 0
	s.mu.Unlock()
	switch {
	case throttle > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(throttle/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	case denied:
		w.WriteHeader(http.StatusForbidden)
	case !ok || mount == "secret" && !isV2:
		w.WriteHeader(http.StatusNotFound)
		write(w, map[string]any{"errors": []string{}})
	case isV2:
		write(w, map[string]any{"data": map[string]any{"data": e.fields, "metadata": map[string]any{"version": e.version, "destroyed": false}}})
	default:
		write(w, map[string]any{"lease_duration": 2764800, "data": e.fields})
	}
}

// write replaces an entry of version 2 of the engine.
func (s *Server) write(w http.ResponseWriter, r *http.Request, path string) {
	var body struct{ Data map[string]string }
	content, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil || json.Unmarshal(content, &body) != nil || body.Data == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.Put("secret", path, body.Data)
	s.mu.Lock()
	version := s.entries["secret/"+path].version
	s.mu.Unlock()
	write(w, map[string]any{"data": map[string]any{"version": version}})
}

func write(w http.ResponseWriter, answer any) {
	content, err := json.Marshal(answer)
	if err == nil {
		_, _ = w.Write(content) // a client that has gone is served no more
	}
}
