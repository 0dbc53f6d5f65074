// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/crossorigin"
)

// showPage answers with the page, whose nonce no other answer has.
func (u *UI) showPage(w http.ResponseWriter, r *http.Request) {
	nonce := rand.Text()
	guardHeaders(w.Header(), r.Host, nonce)
	showHTML(w, r, http.StatusOK, bytes.Join(u.page, []byte(nonce)))
}

// guardHeaders sets what every answer below /ui/ has. Files have the policy, too: a browser applies
// it to a worker, and to an image that is opened as a page.
func guardHeaders(header http.Header, host, nonce string) {
	guardWith(header, policy(host, nonce))
}

func guardWith(header http.Header, policy string) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), usb=()")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
}

// policy returns the Content-Security-Policy of an answer.
func policy(host, nonce string) string {
	style := "'self'"
	if nonce != "" {
		style += " 'nonce-" + nonce + "'"
	}
	return "default-src 'none'; script-src 'self'; style-src " + style + "; img-src 'self' data:; font-src 'self'; connect-src 'self'" +
		sockets(host) + "; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// plainHost is the name of a host, or an IPv4 address, as a policy may name it.
var plainHost = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::[0-9]{1,5})?$`)

// sockets returns the sources of WebSockets of the host that the request names. Not every browser
// takes 'self' for them. A host that a policy cannot name gets no source.
func sockets(host string) string {
	found := plainHost.FindStringSubmatch(host)
	if found == nil {
		return ""
	}
	if crossorigin.IsOwnMachine(found[1]) {
		return " wss://" + host + " ws://" + host
	}
	return " wss://" + host
}

func showHTML(w http.ResponseWriter, r *http.Request, status int, content []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", mediaTypes[".html"])
	send(w, r, status, content)
}

const unbuiltStyle = `:root{color-scheme:light dark;background:Canvas;color:CanvasText;font-family:system-ui,sans-serif;line-height:1.5}` +
	`body{max-width:37rem;margin:12vh auto;padding:0 1.5rem;overflow-wrap:anywhere}h1{font-size:1.4rem}`

const unbuilt = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Leat without its web UI</title>
<style>` + unbuiltStyle + `</style>
<main>
<h1>This build of Leat has no web UI</h1>
<p>The hub works, and the command line shows everything that the web UI would.</p>
<p>To get it, run <code>make ui</code> in a checkout of Leat, compile again, and restart. Releases and images have it.</p>
</main>
</html>
`

// unbuiltPolicy allows the one style of the page that shows how to make a build.
var unbuiltPolicy = func() string {
	sum := sha256.Sum256([]byte(unbuiltStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}()

// showUnbuilt shows how to make a build.
func showUnbuilt(w http.ResponseWriter, r *http.Request) {
	guardWith(w.Header(), unbuiltPolicy)
	showHTML(w, r, http.StatusNotFound, []byte(unbuilt))
}

// refuse answers with a status alone.
func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(http.StatusText(status) + "\n")) // the browser has gone when this fails
}

// count counts an answer.
func (u *UI) count(r *http.Request, kind string) {
	u.answers.Add(r.Context(), 1, metric.WithAttributes(attribute.String("kind", kind)))
}
