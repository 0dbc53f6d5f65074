// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// counting is an API server that records the headers of its requests.
type counting struct{ seen []http.Header }

// RoundTrip implements http.RoundTripper.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.seen = append(c.seen, r.Header.Clone())
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// askAs sends one request through a handler. It returns the answer, and the header that the API
// server received or nil.
func askAs(t *testing.T, people uplink.People, header http.Header) (*httptest.ResponseRecorder, http.Header) {
	t.Helper()
	base, err := url.Parse("http://api.invalid")
	if err != nil {
		t.Fatal(err)
	}
	server := &counting{}
	h, err := uplink.NewHandler(uplink.HandlerParams{
		APIServer: base, Transport: server, Upgrades: server, Agent: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler), People: people,
	})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/kubernetes/api/v1/secrets", nil)
	request.Header = header.Clone()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	if len(server.seen) == 0 {
		return recorder, nil
	}
	return recorder, server.seen[0]
}

// reservedNames are spellings of Kubernetes' own names, and names that a server on the way could
// turn into one.
var reservedNames = []string{
	"system:masters", "system:kube-controller-manager", "system:kube-scheduler", "system:apiserver", "system:admin", "system:anonymous",
	"system:serviceaccount:kube-system:default", "system:serviceaccounts", "system:node:a", "system:nodes", "system:authenticated",
	"system:unauthenticated", "system:bootstrappers", "system:monitoring", "system:",
	"System:masters", "SYSTEM:MASTERS", "sYsTeM:masters", " system:masters", "\tsystem:masters", "system:masters ", "\u00a0system:masters",
	"\u2003system:masters", "\u200bsystem:masters", "\ufeffsystem:masters", "\u017fystem:masters", "\r\nsystem:masters", "\x00system:masters",
	"leat:viewers,system:masters", "leat:viewers, system:masters", "leat:viewers\nsystem:masters",
}

func TestSecNobodyIsKubernetesItself(t *testing.T) {
	t.Parallel()
	anybody, err := uplink.NewPeople([]string{"*"}, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	for label, people := range map[string]uplink.People{"by default": {}, "where everybody is allowed": anybody} {
		for _, name := range reservedNames {
			for what, header := range map[string]http.Header{
				"user":          {"Impersonate-User": {name}},
				"group":         {"Impersonate-User": {"ada"}, "Impersonate-Group": {name}},
				"second group":  {"Impersonate-User": {"ada"}, "Impersonate-Group": {"leat:viewers", name}},
				"second user":   {"Impersonate-User": {"ada", name}},
				"uid":           {"Impersonate-User": {"ada"}, "Impersonate-Uid": {name}},
				"upgraded user": {"Impersonate-User": {name}, "Leat-Upgrade": {"websocket"}},
			} {
				got, seen := askAs(t, people, header)
				if seen != nil {
					t.Errorf("%s, %s %q: the API server saw %v", label, what, name, seen)
				}
				var status struct{ Kind, Reason string }
				if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil || got.Code != http.StatusForbidden || status.Kind != "Status" ||
					got.Header().Get("Leat-Error-Reason") != "ACCESS_DENIED" || got.Header().Get("Leat-Error-Origin") != "agent" {
					t.Errorf("%s, %s %q: got %d %s, %v, want a Status 403 of the agent", label, what, name, got.Code, got.Body, err)
				}
			}
		}
	}
}

func TestSecIdentitiesThatTheClusterDoesNotAllow(t *testing.T) {
	t.Parallel()
	narrow, err := uplink.NewPeople([]string{"*@example.com", "ci"}, []string{"leat:viewers", "leat:group:*"})
	if err != nil {
		t.Fatal(err)
	}
	person := func(user string, groups ...string) http.Header {
		return http.Header{"Impersonate-User": {user}, "Impersonate-Group": groups}
	}
	extra := func(key string) http.Header {
		return http.Header{"Impersonate-User": {"ci"}, "Impersonate-Extra-" + key: {"x"}}
	}
	for name, test := range map[string]struct {
		people uplink.People
		header http.Header
		want   int
		says   string
	}{
		"anybody in the hub's groups":         {uplink.People{}, person("ada", "leat:admins", "leat:group:a"), 200, ""},
		"without a group":                     {uplink.People{}, person("ada"), 200, ""},
		"a user that looks like a prefix":     {uplink.People{}, person("system"), 200, ""},
		"a user in the middle":                {uplink.People{}, person("my-system:x"), 200, ""},
		"a group of somebody else":            {uplink.People{}, person("ada", "cluster-admins"), 403, "LEAT_AGENT_ALLOWED_GROUPS"},
		"a group that ends as one of ours":    {uplink.People{}, person("ada", "oidc:leat:admins"), 403, "LEAT_AGENT_ALLOWED_GROUPS"},
		"a listed user and group":             {narrow, person("ada@example.com", "leat:viewers", "leat:group:a"), 200, ""},
		"a user by a whole name":              {narrow, person("ci"), 200, ""},
		"another user":                        {narrow, person("ada@example.org", "leat:viewers"), 403, "LEAT_AGENT_ALLOWED_USERS"},
		"a name that goes on":                 {narrow, person("ci2"), 403, "LEAT_AGENT_ALLOWED_USERS"},
		"a group of the hub that is not ours": {narrow, person("ci", "leat:admins"), 403, "leat:admins"},
		"groups are compared as they are":     {narrow, person("ci", "Leat:viewers"), 403, "Leat:viewers"},
		"nobody":                              {uplink.People{}, http.Header{"Impersonate-Group": {"leat:viewers"}}, 403, "no user"},
		"an empty name":                       {uplink.People{}, person(""), 403, "no user"},
		"an empty name first":                 {uplink.People{}, http.Header{"Impersonate-User": {"", "ada"}}, 403, "no user"},
		"two names":                           {uplink.People{}, http.Header{"Impersonate-User": {"ada", "bob"}}, 403, "more than one"},
		"an empty group":                      {uplink.People{}, person("ada", ""), 403, "empty"},
		"two uids":                            {uplink.People{}, http.Header{"Impersonate-User": {"ada"}, "Impersonate-Uid": {"a", "b"}}, 403, "more than one"},
		"the hub's attribute":                 {narrow, extra("Leat.dev%2fbindings"), 200, ""},
		"an attribute of a cloud":             {narrow, extra("Iam.gke.io%2fuser-Assertion"), 403, "user-Assertion"},
		"Kubernetes' attribute":               {narrow, extra("Authentication.kubernetes.io%2fnode-Name"), 403, "node-Name"},
		"scopes":                              {narrow, extra("Scopes"), 403, "Scopes"},
		"an attribute with a broken escape":   {narrow, extra("Leat.dev%2"), 403, "attribute"},
		"a Connection header":                 {uplink.People{}, http.Header{"Impersonate-User": {"ada"}, "Connection": {"Impersonate-User"}}, 400, ""},
	} {
		got, seen := askAs(t, test.people, test.header)
		if got.Code != test.want || (seen != nil) != (test.want == 200) || !strings.Contains(got.Body.String(), test.says) {
			t.Errorf("%s: got %d %s, want %d; the API server saw %v", name, got.Code, got.Body, test.want, seen)
		}
	}
}

// TestSecNothingElseLooksLikeAnIdentity sends headers that servers other than Kubernetes' own
// accept as an identity.
func TestSecNothingElseLooksLikeAnIdentity(t *testing.T) {
	t.Parallel()
	header := http.Header{"Impersonate-User": {"ada"}, "Accept": {"application/json"}}
	for _, name := range []string{
		"X-Remote-User", "X-Remote-Group", "x_remote_user", "impersonate_group", "IMPERSONATE-USER", "Impersonate.User", "Impersonate-Future", "Impersonate-Users",
		"X-Forwarded-For", "X-Real-Ip", "X_Real_Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Forwarded", "X-Original-Forwarded-For",
		"X-Envoy-External-Address", "Authorization", "Cookie", "Leat-Subject", "X-Http-Method-Override",
	} {
		header[name] = []string{"system:masters"}
	}
	_, seen := askAs(t, uplink.People{}, header)
	for name := range seen {
		if name != "Impersonate-User" && name != "Accept" && name != "User-Agent" {
			t.Errorf("the API server saw %s: %s", name, seen[name])
		}
	}
}

func TestPeopleThatAreNotNames(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a*b*c", "system:masters", "System:*", "system:*", " a", "a ", "a\nb", " system:x"} {
		if _, err := uplink.NewPeople([]string{text}, nil); err == nil {
			t.Errorf("user %q: got no error", text)
		}
		if _, err := uplink.NewPeople(nil, []string{"leat:viewers", text}); err == nil {
			t.Errorf("group %q: got no error", text)
		}
	}
}

// TestRefusedIdentitiesAreLogged sends refused requests again and again, which must not fill the
// log.
func TestRefusedIdentitiesAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h, err := uplink.NewHandler(uplink.HandlerParams{
		APIServer: &url.URL{Scheme: "http", Host: "api.invalid"}, Transport: broken{}, Agent: http.NotFoundHandler(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/kubernetes/api", nil)
		request.Header.Set("Impersonate-User", "system:kube-controller-manager")
		h.ServeHTTP(httptest.NewRecorder(), request)
	}
	lines := strings.Count(log.String(), "\n")
	if lines == 0 || lines > 500 || !strings.Contains(log.String(), "system:kube-controller-manager") {
		t.Errorf("got %d lines, the first of them %.300q, want few that name the user", lines, log.String())
	}
}

// FuzzPeople looks for a name that passes the check, but that an API server, or HTTP on the way to
// it, reads as Kubernetes' own.
func FuzzPeople(f *testing.F) {
	for _, name := range append([]string{"ada", "leat:viewers", "ada@example.com"}, reservedNames...) {
		f.Add(name)
	}
	anybody, err := uplink.NewPeople(nil, []string{"*"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, header := range []http.Header{
			{"Impersonate-User": {name}}, {"Impersonate-User": {"ada"}, "Impersonate-Group": {name}},
		} {
			if _, seen := askAs(t, anybody, header); seen == nil {
				continue
			}
			// HTTP/1.1 trims values, and writes line breaks as spaces.
			read := strings.ToLower(strings.TrimSpace(strings.NewReplacer("\r", " ", "\n", " ").Replace(name)))
			if strings.HasPrefix(read, "system:") || read != strings.ToLower(name) || name == "" {
				t.Errorf("%q passed", name)
			}
		}
	})
}
