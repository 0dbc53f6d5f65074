// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/golden"
)

// leak is one secret that an attacker holds.
type leak struct {
	name string
	// bearers returns what the holder can send to a program as a bearer token: the secret itself,
	// and tokens made from it.
	bearers func(t *testing.T, program string) []string
	// passwords are the ones that the holder can try at Redis.
	passwords []string
}

// door is one procedure or path that a secret may open.
type door struct {
	program string
	name    string
	// opens reports whether a caller with this bearer token is allowed in.
	opens func(ctx context.Context, token string) (bool, error)
}

// TestSecLeakedSecrets tries every secret of a hub at every door of all its services. It compares
// the doors that open with the table in testdata, which the documentation shows. It fails if a
// secret opens more than before.
func TestSecLeakedSecrets(t *testing.T) {
	r := startRig(t)
	leaks, doors := r.leaks(t), r.doors()
	var out strings.Builder
	out.WriteString("# What a leaked secret opens\n\n<!-- Made by TestSecLeakedSecrets in test/attack, with -update. -->\n\n" +
		"Each secret was tried as a bearer token, with all that can be made from it, at every procedure of the hub's services, at the paths that " +
		"are not procedures, and at Redis.\nA door counts as open when its answer is any other than that the caller may not.\n")
	for _, leak := range leaks {
		fmt.Fprintf(&out, "\n## %s\n\n", leak.name)
		for _, program := range services() {
			bearers := leak.bearers(t, program)
			var theirs []door
			for _, d := range doors {
				if d.program == program {
					theirs = append(theirs, d)
				}
			}
			fmt.Fprintf(&out, "- %s: %s\n", program, summary(theirs, r.tryAll(t, theirs, bearers)))
		}
		fmt.Fprintf(&out, "- Redis: %s\n", map[bool]string{true: "**open**", false: "nothing"}[r.opensRedis(t, leak.passwords)])
	}
	golden.Assert(t, "leaked-secrets.md", []byte(out.String()))
}

// leaks returns the secrets of the hub.
func (r *rig) leaks(t *testing.T) []leak {
	t.Helper()
	same := func(tokens ...string) func(*testing.T, string) []string {
		return func(*testing.T, string) []string { return tokens }
	}
	all := []leak{{name: "Nothing", bearers: same("")}}
	for _, service := range services() {
		all = append(all, leak{
			name: "Secret of the service " + service, passwords: []string{secretOf(service)},
			bearers: func(t *testing.T, program string) []string {
				t.Helper()
				tokens := append(forged(t, service, program), secretOf(service))
				if program == identity.ServiceTunnel { // the names of its replicas are in Redis
					tokens = append(tokens, forged(t, service, identity.ReplicaAudience(program, r.replica(t)))...)
				}
				if program == identity.ServiceGitCache {
					tokens = append(tokens, forged(t, service, identity.ReplicaAudience(program, "http://"+r.gitcache.public))...)
				}
				return tokens
			},
		})
	}
	join, bootstrap := r.joinToken(t, "joining"), r.bootstrapToken(t)
	all = append(
		all,
		leak{name: "Key of an agent", bearers: func(t *testing.T, program string) []string {
			t.Helper()
			return []string{r.agentToken(t, r.probe, program)}
		}},
		leak{name: "Join token", bearers: same(join), passwords: []string{join}},
		leak{name: "Bootstrap token", bearers: same(bootstrap), passwords: []string{bootstrap}},
		leak{name: "API token of an administrator", passwords: []string{adminToken}, bearers: func(t *testing.T, program string) []string {
			t.Helper()
			return []string{adminToken, r.personToken(t, adminToken, program)}
		}},
	)
	for _, audience := range audiences() {
		all = append(all, leak{
			name: fmt.Sprintf("Access token of an administrator, audience %q", audience), bearers: same(r.personToken(t, adminToken, audience)),
		})
	}
	dump := r.dump(t)
	return append(
		all,
		leak{name: "Password of Redis", bearers: same(redisPassword), passwords: []string{redisPassword}},
		leak{name: "Dump of the SQL database", bearers: same(dump...), passwords: dump},
	)
}

// word is a name of the schema, or a line of a comment in it. Secrets have digits or capital letters.
var word = regexp.MustCompile(`^[a-z_.=-]+$`)

// dump returns all strings in the database's files that look like secrets.
func (r *rig) dump(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "catalog.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find the database: %v, %v", files, err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`[A-Za-z0-9_.+/=-]{20,}`).FindAll(content, -1) {
			found = append(found, string(match))
		}
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(s string) bool {
		return word.MatchString(s) || strings.Count(s, "/") > 2 // names of types
	})
}

// doors returns all doors except Redis.
func (r *rig) doors() []door {
	var all []door
	for _, s := range []*server{r.distributor, r.gitcache, r.tunnel} {
		for _, p := range s.procedures {
			all = append(all, door{program: s.service, name: strings.TrimPrefix(p.path, "/leat."), opens: func(ctx context.Context, token string) (bool, error) {
				return s.opensProcedure(ctx, p, token)
			}})
		}
	}
	path := func(s *server, name, path string, overHTTP2 bool, header http.Header) {
		all = append(all, door{program: s.service, name: name, opens: func(ctx context.Context, token string) (bool, error) {
			return s.opensPath(ctx, path, overHTTP2, header, token)
		}})
	}
	path(r.distributor, "bundles", "/v1/bundles/sha256:"+strings.Repeat("1", 64), false, nil)
	path(r.tunnel, "clusters", "/clusters/probe/version", false, nil)
	path(r.tunnel, "agents' connections", "/tunnel/v1/connect", false, http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"leat-tunnel/1"}, "Leat-Connection-Id": {"leaked"},
	})
	hop := *r.tunnel
	hop.public, hop.proxied = r.peers, false
	path(&hop, "hops, at the listener for replicas", "/tunnel/v1/hop/version", true, http.Header{
		"Leat-Hop": {"leaked"}, "Leat-Hop-Cluster": {"probe"}, "Impersonate-User": {"somebody"},
	})
	return all
}

// tryAll reports for each door whether any of the tokens opens it. It fails the test if a door does
// not answer.
func (r *rig) tryAll(t *testing.T, doors []door, tokens []string) []bool {
	t.Helper()
	open := make([]bool, len(doors))
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i, d := range doors {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for _, token := range tokens {
				ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
				opens, err := d.opens(ctx, token)
				cancel()
				if err != nil {
					t.Errorf("%s, %s: %v", d.program, d.name, err)
					return
				}
				if open[i] = opens; opens {
					return
				}
			}
		})
	}
	all.Wait()
	return open
}

// summary lists the open doors, procedures grouped by service.
func summary(doors []door, open []bool) string {
	type count struct{ open, all int }
	counts, names := map[string]*count{}, map[string][]string{}
	var groups []string
	for i, d := range doors {
		group := path.Dir(d.name) // for a procedure: its service
		if counts[group] == nil {
			counts[group] = &count{}
			groups = append(groups, group)
		}
		counts[group].all++
		if open[i] {
			counts[group].open++
			names[group] = append(names[group], path.Base(d.name))
		}
	}
	var texts []string
	for _, group := range groups {
		switch c := counts[group]; {
		case c.open == 0:
		case group == ".":
			texts = append(texts, names[group]...)
		case c.open == c.all:
			texts = append(texts, fmt.Sprintf("**all of %s**", group))
		default:
			texts = append(texts, fmt.Sprintf("of %s %s", group, strings.Join(names[group], ", ")))
		}
	}
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, "; ")
}

// refusals are the codes for a caller without permission, and for a procedure that does not exist.
var refusals = []string{"unauthenticated", "permission_denied", "unimplemented"}

// opensProcedure calls a procedure and reports whether the caller was allowed.
func (s *server) opensProcedure(ctx context.Context, p procedure, token string) (bool, error) {
	contentType, body := "application/json", "{}"
	if p.stream { // one message
		contentType, body = "application/connect+json", "\x00\x00\x00\x00\x02{}"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(s.public, p.path), strings.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := s.authorized(request, token, true)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if p.stream && response.StatusCode == http.StatusOK {
		return opensStream(ctx, response)
	}
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotImplemented:
		return false, nil
	case http.StatusNotFound: // from the mux, or from the procedure
		return strings.HasPrefix(response.Header.Get("Content-Type"), "application/json"), nil
	}
	return true, nil
}

// streamWait is how long a stream may send nothing before it counts as open: it is then waiting for
// an event.
const streamWait = 20 * time.Second

// opensStream reads the first message of a stream and reports whether the caller was allowed.
func opensStream(ctx context.Context, response *http.Response) (bool, error) {
	silent := time.AfterFunc(streamWait, func() { _ = response.Body.Close() })
	defer silent.Stop()
	head := make([]byte, 5)
	if _, err := io.ReadFull(response.Body, head); err != nil {
		return true, ctx.Err() // the stream sent nothing
	}
	const end = 2 // the flag of the last message, which holds the error
	if head[0]&end == 0 {
		return true, nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(binary.BigEndian.Uint32(head[1:]))))
	if err != nil {
		return false, err
	}
	var last struct{ Error struct{ Code string } }
	if err := json.Unmarshal(text, &last); err != nil {
		return false, fmt.Errorf("the end of a stream: %w", err)
	}
	return !slices.Contains(refusals, last.Error.Code), nil
}

// opensPath makes a GET request and reports whether the caller was allowed.
func (s *server) opensPath(ctx context.Context, path string, overHTTP2 bool, header http.Header, token string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(s.public, path), http.NoBody)
	if err != nil {
		return false, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := s.authorized(request, token, overHTTP2)
	if err != nil {
		return false, err
	}
	_ = response.Body.Close()
	return response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden, nil
}

// kept are the clients of doors, by server and protocol: thousands of tokens are tried, and a connection
// for each would use up the ports of the address.
var kept sync.Map

// way is how a kept client reaches a door.
type way struct {
	public             string
	overHTTP2, proxied bool
}

// authorized sends a request with a bearer token, unless the token is empty.
func (s *server) authorized(request *http.Request, token string, overHTTP2 bool) (*http.Response, error) {
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	at := way{s.public, overHTTP2, s.proxied}
	known, _ := kept.Load(at)
	if client, ok := known.(*http.Client); ok {
		return client.Do(request)
	}
	client := s.client()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("the client has a transport of type %T", client.Transport)
	}
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(!overHTTP2)
	transport.Protocols.SetUnencryptedHTTP2(overHTTP2)
	transport.DisableKeepAlives, transport.IdleConnTimeout = false, time.Second
	kept.Store(at, client) // of two at once, one serves this request alone
	return client.Do(request)
}

// opensRedis reports whether Redis accepts any of the passwords, or needs none.
func (r *rig) opensRedis(t *testing.T, passwords []string) bool {
	t.Helper()
	for _, password := range passwords {
		if strings.HasPrefix(r.ask(t, "AUTH "+password, "PING"), "+PONG") {
			return true
		}
	}
	return strings.HasPrefix(r.ask(t, "PING"), "+PONG")
}

// ask sends commands to Redis, and returns the answer to the last one.
func (r *rig) ask(t *testing.T, commands ...string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers, answer := bufio.NewReader(conn), ""
	for _, command := range commands {
		if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err = answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return answer
}

// replica returns the name of the tunnel's replica, which an attacker can read in Redis.
func (r *rig) replica(t *testing.T) string {
	t.Helper()
	names, err := r.redisClient(t).ZRange(t.Context(), "leat:{tunnel}:replicas", 0, -1).Result()
	if err != nil || len(names) != 1 {
		t.Fatalf("got replicas %v, %v, want one", names, err)
	}
	return names[0]
}

func (r *rig) redisClient(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.redis.Addr(), Password: redisPassword})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
