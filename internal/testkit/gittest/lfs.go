// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gliderlabs/ssh"
)

const (
	lfsMediaType = "application/vnd.git-lfs+json"
	ticketHeader = "X-Lfs-Ticket"
	lfsInfix     = ".git/info/lfs/"
)

// LFS is the Git LFS server of a repository: the Batch API with basic transfers, at the
// repository's URL, with its authentication. Objects are downloaded with a ticket from the batch
// answer instead of a password. All methods may be called concurrently.
type LFS struct {
	server *Server
	name   string
	ticket string

	mu      sync.Mutex
	objects map[string]string // by oid
	store   string            // URL prefix of objects; empty: this server
	stats   LFSStats
}

// LFSStats counts the requests of an LFS server.
type LFSStats struct {
	Batches   int // answered batch requests
	Downloads int // of objects
}

// LFS makes the server offer Git LFS for this repository, or returns the LFS server that it offers.
func (r *Repo) LFS() *LFS {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	l, ok := r.server.lfs[r.name]
	if !ok {
		l = &LFS{server: r.server, name: r.name, ticket: rand.Text(), objects: map[string]string{}}
		r.server.lfs[r.name] = l
	}
	return l
}

// LFSPointer returns the pointer file of content in Git.
func LFSPointer(content string) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", LFSOID(content), len(content))
}

// LFSOID returns the name of content.
func LFSOID(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// Put adds an object to the server, and returns its pointer file in Git.
func (l *LFS) Put(content string) (pointer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[LFSOID(content)] = content
	return LFSPointer(content)
}

// Spoil makes the server send other content instead of an object.
func (l *LFS) Spoil(content, instead string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[LFSOID(content)] = instead
}

// SetStore makes answers name another location for objects: prefix followed by the oid.
func (l *LFS) SetStore(prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store = prefix
}

// Ticket returns the header that a download has to carry, with its value.
func (l *LFS) Ticket() (header, value string) { return ticketHeader, l.ticket }

// Stats returns what the server has seen.
func (l *LFS) Stats() LFSStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// lfsOf returns the LFS server that a request is for, and the rest of its path, or nil if there is
// none.
func (s *Server) lfsOf(r *http.Request) (*LFS, string) {
	name, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), lfsInfix)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !found || s.lfs[name] == nil {
		return nil, ""
	}
	return s.lfs[name], rest
}

// hasTicket reports whether a request needs no password.
func (s *Server) hasTicket(r *http.Request) bool {
	l, _ := s.lfsOf(r)
	return l != nil && r.Header.Get(ticketHeader) == l.ticket
}

// serveLFS answers a request for an LFS server. It returns false for a request for Git.
func (s *Server) serveLFS(w http.ResponseWriter, r *http.Request) bool {
	l, rest := s.lfsOf(r)
	if l == nil {
		return false
	}
	oid, object := strings.CutPrefix(rest, "objects/")
	switch {
	case r.Method == http.MethodPost && rest == "objects/batch":
		l.serveBatch(w, r)
	case r.Method == http.MethodGet && object:
		l.serveObject(w, oid)
	default:
		http.NotFound(w, r)
	}
	return true
}

type lfsObject struct {
	OID     string         `json:"oid"`
	Size    int            `json:"size"`
	Actions map[string]any `json:"actions,omitempty"`
	Error   map[string]any `json:"error,omitempty"`
}

func (l *LFS) serveBatch(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Operation string
		Transfers []string
		Objects   []lfsObject
	}
	if r.Header.Get("Accept") != lfsMediaType || r.Header.Get("Content-Type") != lfsMediaType {
		http.Error(w, "not acceptable", http.StatusNotAcceptable)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil || question.Operation != "download" {
		http.Error(w, "not understood", http.StatusUnprocessableEntity)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Batches++
	for i := range question.Objects {
		l.offerLocked(&question.Objects[i])
	}
	w.Header().Set("Content-Type", lfsMediaType)
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": question.Objects}) // an error means that the client is gone
}

func (l *LFS) offerLocked(o *lfsObject) {
	if _, ok := l.objects[o.OID]; !ok {
		o.Error = map[string]any{"code": http.StatusNotFound, "message": "Object does not exist"}
		return
	}
	prefix := l.store
	if prefix == "" {
		prefix = l.server.URL() + "/" + l.name + lfsInfix + "objects/"
	}
	o.Actions = map[string]any{"download": map[string]any{
		"href": prefix + o.OID, "header": map[string]string{ticketHeader: l.ticket}, "expires_in": 600,
	}}
}

func (l *LFS) serveObject(w http.ResponseWriter, oid string) {
	l.mu.Lock()
	content, ok := l.objects[oid]
	l.stats.Downloads++
	l.mu.Unlock()
	if !ok {
		http.Error(w, "gone", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write([]byte(content)) // an error means that the client is gone
}

// authenticateLFS answers git-lfs-authenticate. It returns false if the command is another, or the
// repository has no LFS.
func (s *Server) authenticateLFS(session ssh.Session) bool {
	words := session.Command()
	if len(words) != 3 || words[0] != "git-lfs-authenticate" || words[2] != "download" {
		return false
	}
	s.mu.Lock()
	l := s.lfs[strings.TrimSuffix(strings.TrimPrefix(words[1], "/"), ".git")]
	s.mu.Unlock()
	if l == nil {
		return false
	}
	_ = json.NewEncoder(session).Encode(map[string]any{ // an error means that the client is gone
		"href": s.URL() + "/" + l.name + strings.TrimSuffix(lfsInfix, "/"), "header": map[string]string{ticketHeader: l.ticket},
	})
	return true
}
