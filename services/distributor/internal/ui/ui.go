// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ui serves the web UI: the files of its build, which the program embeds, and one page for
// every path of the UI.
//
// # Promises
//
// Every answer has a Content-Security-Policy, which runs no script of another origin and no script
// that stands in the page. The page gets a new nonce for its styles each time. Requests are never
// paths of a file system: a request names an embedded file exactly, or it names none. Nobody needs
// to be signed in to read the files, because they are the same for everybody and hold no data.
//
// # What it does not do
//
// It signs nobody in and reads no cookie. Pages of the UI call the hub as every other client does.
package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/serve"
)

const (
	// Path is where the UI is. Everything below it is the UI's.
	Path = "/ui/"

	// maxPathBytes bounds the paths that pages may have. The longest names an object of a cluster.
	maxPathBytes = 2 << 10
	// maxFiles and maxFileBytes bound a build, so that a wrong folder is not taken for one.
	maxFiles     = 2000
	maxFileBytes = 16 << 20

	// noncePlace is the text of the page in whose place the nonce of an answer comes.
	noncePlace = "LEAT-NONCE"
	// page is the file that every path of the UI shows.
	page = "index.html"
	// assets is the folder of files whose names are hashes of their content.
	assets = "assets/"
)

// dist has a README alone if the program was compiled without a build.
//
//go:embed all:dist
var dist embed.FS

// Embedded returns the build that the program embeds. It may be empty.
func Embedded() (fs.FS, error) { return fs.Sub(dist, "dist") }

// UI serves a build. It is safe for concurrent use.
type UI struct {
	// page is the content of the page, cut where the nonce comes. Nil: there is no build.
	page  [][]byte
	files map[string]*file
	// answers counts what was answered.
	answers metric.Int64Counter
}

// New reads a build. A folder without index.html is not one, and is served as a page that shows how
// to make one.
func New(build fs.FS, meter metric.Meter) (*UI, error) {
	answers, err := meter.Int64Counter("leat.distributor.ui.answers", metric.WithUnit("{answer}"),
		metric.WithDescription("Answers to browsers below /ui/, by kind: page, file, unchanged, missing, refused, or unbuilt where the program has no web UI."))
	if err != nil {
		return nil, err
	}
	u := &UI{answers: answers, files: map[string]*file{}}
	content, err := fs.ReadFile(build, page)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read web UI: %w", err)
	}
	if u.files, err = readFiles(build); err != nil {
		return nil, fmt.Errorf("read web UI: %w", err)
	}
	u.page = bytes.Split(content, []byte(noncePlace))
	return u, nil
}

// IsBuilt reports whether there is a build to serve.
func (u *UI) IsBuilt() bool { return u.page != nil }

// Before returns a handler that serves the UI, and all other requests by next. A browser that opens
// the hub's root comes to the UI.
func (u *UI) Before(next http.Handler) http.Handler { return &before{ui: u, next: next} }

// before is a type of its own because next may be a stream of days: http.HandlerFunc needs a second
// frame of its stack.
type before struct {
	ui   *UI
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (b *before) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !b.ui.answer(w, r) {
		b.next.ServeHTTP(w, r)
	}
}

// answer answers a request for the UI. It reports false for all others.
func (u *UI) answer(w http.ResponseWriter, r *http.Request) bool {
	switch at := r.URL.Path; {
	case strings.HasPrefix(at, Path):
		u.count(r, u.serve(w, r, strings.TrimPrefix(at, Path)))
	case at == "/ui", at == "/" && isRead(r) && isVisit(r):
		guardHeaders(w.Header(), r.Host, "")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		return false
	}
	return true
}

// serve answers a request for a path below /ui/, and returns the kind of the answer.
func (u *UI) serve(w http.ResponseWriter, r *http.Request, at string) string {
	switch {
	case !isRead(r):
		guardHeaders(w.Header(), r.Host, "")
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed)
		return kindRefused
	case len(r.URL.EscapedPath()) > maxPathBytes:
		guardHeaders(w.Header(), r.Host, "")
		refuse(w, http.StatusRequestURITooLong)
		return kindRefused
	case !u.IsBuilt():
		showUnbuilt(w, r)
		return kindUnbuilt
	}
	if f, ok := u.files[at]; ok {
		return f.serve(w, r)
	}
	if !isPage(r, at) {
		guardHeaders(w.Header(), r.Host, "")
		w.Header().Set("Cache-Control", "no-store") // a newer replica may have it
		refuse(w, http.StatusNotFound)
		return kindMissing
	}
	u.showPage(w, r)
	return kindPage
}

// The kinds of answers.
const (
	kindPage      = "page"
	kindFile      = "file"
	kindUnchanged = "unchanged"
	kindMissing   = "missing"
	kindRefused   = "refused"
	kindUnbuilt   = "unbuilt"
)

// isPage reports whether a path below /ui/ is one of the UI's pages, whose last part may be a name
// with dots. A path with the ending of a file is a page only for a person who opens it.
func isPage(r *http.Request, at string) bool {
	if strings.HasPrefix(at, assets) || strings.ContainsAny(at, "\\\x00") {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(at, "/"), "/") {
		if part == "." || part == ".." || part == "" && at != "" {
			return false
		}
	}
	_, isFile := mediaTypes[path.Ext(at)]
	return at == page || !isFile && path.Ext(at) != ".map" || isVisit(r)
}

// isRead reports whether the request only reads.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// isVisit reports whether a person opens the address in a browser.
func isVisit(r *http.Request) bool {
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" {
		return dest == "document"
	}
	return serve.PreferencesOf(r.Header["Accept"]).Weight(0, "text/html") > 0
}
