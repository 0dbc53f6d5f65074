// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package openid is a real OpenID provider (zitadel/oidc) for tests of the hub's sign-in: discovery,
// keys, authorization codes with PKCE, refresh tokens, and a claim with the person's groups. Its page
// asks for a name and a password, and lets the person refuse. It keeps everything in memory.
package openid

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	// ClientID is the name of the hub at the provider.
	ClientID = "leat"
	// Password is the password of every person.
	Password = "a password of this test"

	formPath   = "/login/username" // the library posts and redirects here
	refusePath = "/login/refuse"
)

// Params describe a provider.
type Params struct {
	// Issuer is the URL at which the provider is served.
	Issuer string
	// Hub is the URL of the hub's pages, and Secret what the hub proves itself with.
	Hub, Secret string
	// People are the groups of each person, by name.
	People map[string][]string
}

// New returns a handler that serves the provider. It replaces the default logger of the process by
// one that discards everything, because the library logs each request.
func New(p Params) http.Handler {
	known := users{}
	for name := range p.People {
		known[name] = &storage.User{
			ID: name, Username: name, Password: Password, Email: name + "@example.com", EmailVerified: true,
		}
	}
	s := &store{
		Storage: storage.NewStorageWithClients(known, map[string]*storage.Client{
			ClientID: storage.WebClient(ClientID, p.Secret, p.Hub+"/login/callback"),
		}),
		groups: p.People,
	}
	mux := http.NewServeMux()
	mux.Handle("/", exampleop.SetupServer(p.Issuer, s, slog.New(slog.DiscardHandler), false))
	mux.HandleFunc("GET "+formPath, showForm)
	mux.HandleFunc("POST "+refusePath, s.refuse)
	return mux
}

// users are people of the provider. The ID of a user is the name.
type users map[string]*storage.User

func (u users) GetUserByID(id string) *storage.User         { return u[id] }
func (u users) GetUserByUsername(name string) *storage.User { return u[name] }
func (users) ExampleClientID() string                       { return storage.ServiceUserID }

// store is the library's example of a store, with groups.
type store struct {
	*storage.Storage
	groups map[string][]string
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest: claims of ID tokens.
func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	defer info.AppendClaims("groups", s.groups[token.GetSubject()])
	return s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

// SetUserinfoFromToken implements op.Storage: claims that the hub asks for with an access token.
func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	defer info.AppendClaims("groups", s.groups[subject])
	return s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
}

var form = template.Must(template.New("form").Parse(`<!DOCTYPE html>
<html lang="en">
<title>Sign in at the provider</title>
<h1>Sign in at the provider</h1>
<form method="post" action="` + formPath + `">
<input type="hidden" name="id" value="{{.}}">
<p><label>Username: <input name="username" autocomplete="off"></label></p>
<p><label>Password: <input name="password" type="password" autocomplete="off"></label></p>
<p><button>Sign in</button></p>
</form>
<form method="post" action="` + refusePath + `">
<input type="hidden" name="id" value="{{.}}">
<p><button>Refuse</button></p>
</form>
`))

// showForm asks for a name and a password.
func showForm(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = form.Execute(w, r.FormValue("authRequestID")) // the browser has gone when this fails
}

// refuse sends the person back to the hub, which learns that they did not agree.
func (s *store) refuse(w http.ResponseWriter, r *http.Request) {
	request, err := s.AuthRequestByID(r.Context(), r.FormValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := url.Values{"error": {"access_denied"}, "state": {request.GetState()}}
	w.Header().Set("Location", request.GetRedirectURI()+"?"+answer.Encode()) // an address that the library has checked
	w.WriteHeader(http.StatusSeeOther)
}
