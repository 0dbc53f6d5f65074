// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loginpages

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

// page is the content of a page.
type page struct {
	Title, Text string
	Links       []link
	// Form ties the form for a code to this browser; empty: there is no form.
	Form string
	// Style is set by show.
	Style template.CSS
}

type link struct{ URL, Text string }

// style names both colours of the browser's scheme. Words break where a small screen or large text
// leaves no room for them.
const style = `:root{color-scheme:light dark;background:Canvas;color:CanvasText;font-family:system-ui,sans-serif;line-height:1.5}` +
	`*{box-sizing:border-box}body{max-width:37rem;margin:12vh auto;padding:0 1.5rem;overflow-wrap:anywhere}h1{font-size:1.4rem}` +
	`a,button{display:inline-block;margin:.4rem 0;padding:.6rem 1rem;border:1px solid;border-radius:.4rem;font:inherit;color:inherit;background:none;text-decoration:none}` +
	`input{font:inherit;font-family:ui-monospace,monospace;padding:.6rem;width:16ch;max-width:100%;text-transform:uppercase}li{list-style:none}ul{padding:0}`

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>{{.Style}}</style>
<main>
<h1>{{.Title}}</h1>
{{with .Text}}<p id="text">{{.}}</p>
{{end}}{{if .Links}}<ul>
{{range .Links}}<li><a href="{{.URL}}">{{.Text}}</a></li>
{{end}}</ul>
{{end}}{{with .Form}}<form method="post" action="/device">
<input type="hidden" name="form" value="{{.}}">
<label>Code <input name="code" autocomplete="off" autocapitalize="characters" spellcheck="false" maxlength="16" aria-describedby="text" required autofocus></label>
<button>Go on</button>
</form>
{{end}}</main>
</html>
`))

// policy allows the one style of the pages, and forms to the hub itself.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// guardHeaders sets what every answer has, redirects included: the code of a command line must not
// become a referrer or be cached.
func guardHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func show(w http.ResponseWriter, status int, p page) {
	p.Style = style
	var content bytes.Buffer
	if err := layout.Execute(&content, p); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(content.Bytes()) // the browser has gone when this fails
}

// fail shows the problem, and the remedy.
func fail(w http.ResponseWriter, status int, title, text string) {
	show(w, status, page{Title: title, Text: text})
}
